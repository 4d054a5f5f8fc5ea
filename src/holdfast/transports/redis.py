"""Redis Streams: entries that the server has confirmed, and those that a consumer group gets.

The client's own retries are off: a retried XADD would add the entry twice, and what was sent on a lost connection has
an unknown fate. So connections are used directly: the commands of a batch are written at once, and each answer
settles its message.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..model.event import Delivered, Message, Refused
from . import Away, Settle
from .cloudevents import JSON, STRUCTURED, attributes
from .consuming import FETCHED, FIRST, LINGER, Incoming
from .naming import Template, check_url, hide_secrets, library

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

log = logging.getLogger("holdfast.transports")

SCHEMES = ("redis", "rediss", "unix")
PREFIX = "ce_"
DATA = "data"
CONTENT_TYPE = "content-type"
CONNECT = 5.0
"""Seconds for a connection, and for a short command."""
LARGEST = 512 * 1024 * 1024
"""Bytes of one value, if the server does not say: its default `proto-max-bulk-len`."""

NOT_NOW = {
    "OOM", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "MISCONF", "NOREPLICAS", "BUSY",
    "NOAUTH",
}  # fmt: skip
"""Errors about the server, not about the message: it may be taken later, or by another server."""
_CLASSES = {
    "OutOfMemoryError": "OOM", "ReadOnlyError": "READONLY", "MasterDownError": "MASTERDOWN", "MovedError": "MOVED",
    "ClusterDownError": "CLUSTERDOWN", "TryAgainError": "TRYAGAIN", "AskError": "ASK",
    "AuthenticationError": "NOAUTH", "NoPermissionError": "NOPERM",
}  # fmt: skip
"""The client's classes of errors whose texts lack the server's word."""


class RedisStreams:
    """A destination: streams of a Redis server.

        hf.relay("order.*", to=RedisStreams("redis://bus", stream="shop"), name="bus")

    The message is delivered when the server has added it. Redis drops no duplicates: consumers know them by `ce_id`.
    The stream is never trimmed, because Redis would drop entries that nobody has read.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        timeout: float = 10.0,
        batch: int = 500,
        parallel: int = 2,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        """`url`: redis://, rediss:// (with TLS) or unix://.
        `stream`: a name, with the fields {type}, {source}, {key} and {tenant}. Order holds within a stream.
        `timeout`: seconds after which an unconfirmed message has an unknown fate, and is sent again.
        `connect`: more arguments of the client's connections, such as `ssl_ca_certs`.
        """
        self._link = _Link(url, connect)
        self._stream = Template(stream, "stream")
        self._timeout = timeout
        self.batch = batch
        self.parallel = parallel
        self._idle: list[_Wire] = []
        self._used: set[_Wire] = set()
        self._opened = False
        self._largest = LARGEST
        self._warned = False

    @property
    def shown(self) -> str:
        """The server and the stream."""
        return f"{self._link.shown} {self._stream.text}"

    async def open(self) -> None:
        """Connect. Warns once if the server may forget what it has confirmed."""
        wire = await self._link.connect()
        try:
            self._largest = await self._limit(wire)
            if not self._warned:
                self._warned = True
                await _warn(self._link, wire)
        except BaseException:
            wire.abort()
            raise
        self._idle.append(wire)
        self._opened = True

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        """Add the messages with commands in one go, and settle each with its answer."""
        if not self._opened:
            raise Away(f"{self._link.shown}: not connected")
        sent: list[tuple[Message, str]] = []
        commands: list[list[str | bytes]] = []
        for message in batch:
            prepared = self._prepare(message)
            if isinstance(prepared, Refused):
                settle(message, prepared)
            else:
                sent.append((message, prepared))
                commands.append(["XADD", prepared, "*", *_fields(message), DATA, message.data])
        if not sent:
            return
        wire = self._idle.pop() if self._idle else await self._link.connect()
        self._used.add(wire)
        later: Away | None = None
        try:
            with self._link.errors():
                async with asyncio.timeout(self._timeout):
                    await wire.write(commands)
                    for message, stream in sent:
                        answer = await wire.answer()
                        if isinstance(answer, Exception):
                            word = _word(answer)
                            if word in NOT_NOW:
                                later = Away(f"{self._link.shown}: {word} {answer}")
                            else:
                                settle(message, Refused(reason=f"{stream}: {answer}"))
                        else:
                            settle(message, Delivered(reference=f"{stream}:{answer.decode()}"))
        except BaseException:
            wire.abort()
            raise
        finally:
            self._used.discard(wire)
        if later is None and self._opened:
            self._idle.append(wire)
        else:
            wire.abort()
        if later is not None:
            raise later

    async def close(self) -> None:
        """Disconnect."""
        self._opened = False
        for wire in (*self._idle, *self._used):
            wire.abort()
        self._idle.clear()

    def _prepare(self, message: Message) -> str | Refused:
        try:
            stream = self._stream.of(message)
        except ValueError as error:
            return Refused(reason=str(error), final=True)
        if len(message.data) > self._largest:
            return Refused(
                reason=f"{len(message.data):,} bytes exceed the server's proto-max-bulk-len of {self._largest:,}",
                final=True,
            )
        return stream

    async def _limit(self, wire: _Wire) -> int:
        """Return the largest value that the server takes: for a larger one, it closes the connection."""
        answer = await self._link.ask(wire, "CONFIG", "GET", "proto-max-bulk-len")
        # Many hosting services do not allow CONFIG.
        return int(answer[1]) if isinstance(answer, list) and len(answer) == 2 else LARGEST


class RedisConsumer:
    """A source: streams of a Redis server, through a consumer group.

    The group is created if there is none, from the start of each stream. What was fetched and not acknowledged comes
    again: first thing when a consumer of the same name opens, else after `claim_after` seconds. So the order of a
    stream is kept as long as one process at a time uses the group.
    """

    def __init__(
        self,
        url: str,
        stream: str | Sequence[str],
        group: str,
        *,
        name: str = "holdfast",
        claim_after: float = 60.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        """`url`, `connect`: as in `RedisStreams`. `stream`: its name, or several names. `group`: name of the group.
        `name`: of the consumer within the group. Processes may share it.
        """
        self._link = _Link(url, connect)
        self._streams = [stream] if isinstance(stream, str) else list(stream)
        if not self._streams or not group or not name:
            raise ConfigurationError("expected the names of a stream, a group and a consumer, got an empty one")
        self._group = group
        self._name = name
        self._claim_after = claim_after
        self._wire: _Wire | None = None
        self._behind: dict[str, str] = {}
        self._claim_at = 0.0
        self._warned = False

    @property
    def shown(self) -> str:
        """The server, the streams and the group."""
        return f"{self._link.shown} {','.join(self._streams)}/{self._group}"

    async def open(self) -> None:
        """Connect, and create the group if there is none."""
        wire = await self._link.connect()
        try:
            if not self._warned:
                self._warned = True
                await _warn(self._link, wire)
            for stream in self._streams:
                made = await self._link.ask(wire, "XGROUP", "CREATE", stream, self._group, "0", "MKSTREAM")
                if isinstance(made, Exception) and "BUSYGROUP" not in str(made):
                    raise Away(f"{self.shown}: {made}")
        except BaseException:
            wire.abort()
            raise
        self._wire = wire
        self._behind = dict.fromkeys(self._streams, "0")
        self._claim_at = time.monotonic()

    async def fetch(self) -> Sequence[Incoming]:
        """Return entries, from the oldest: first those that were fetched before and not acknowledged."""
        while self._behind:
            found = await self._read(self._behind, None)
            for stream in list(self._behind):
                entries = found.get(stream)
                if entries:
                    self._behind[stream] = entries[-1][0].decode()
                else:
                    del self._behind[stream]
            if messages := await self._incoming(found):
                return messages
        if time.monotonic() >= self._claim_at:
            self._claim_at = time.monotonic() + self._claim_after / 4
            if messages := await self._claim():
                self._claim_at = 0.0  # there may be more
                return messages
        new = dict.fromkeys(self._streams, ">")
        messages = await self._incoming(await self._read(new, FIRST))
        if 0 < len(messages) < FETCHED:
            await asyncio.sleep(LINGER)
            messages += await self._incoming(await self._read(new, None, FETCHED - len(messages)))
        return messages

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Acknowledge, and return when the server has done so."""
        ids: dict[str, list[bytes]] = {}
        for message in messages:
            stream, entry = message.handle
            ids.setdefault(stream, []).append(entry)
        await self._acknowledge(ids)

    async def close(self) -> None:
        """Disconnect."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()

    async def _acknowledge(self, ids: Mapping[str, Sequence[bytes]]) -> None:
        for stream, entries in ids.items():
            await self._ask("XACK", stream, self._group, *entries)

    async def _read(
        self, after: Mapping[str, str], wait: float | None, most: int = FETCHED
    ) -> dict[str, list[tuple[bytes, list[bytes] | None]]]:
        """Return entries by stream: new ones after `>`, of ours that are not acknowledged after an id."""
        count = str(max(1, most // len(after)))  # which counts for each stream
        block = () if wait is None else ("BLOCK", str(int(wait * 1000)))
        answer = await self._ask(
            "XREADGROUP", "GROUP", self._group, self._name, "COUNT", count, *block, "STREAMS", *after, *after.values(),
            wait=wait or 0.0,
        )  # fmt: skip
        pairs = answer.items() if isinstance(answer, dict) else (answer or ())
        return {stream.decode(): entries for stream, entries in pairs}

    async def _claim(self) -> list[Incoming]:
        """Take over what was fetched long ago and is not acknowledged."""
        found = {}
        for stream in self._streams:
            answer = await self._ask(
                "XAUTOCLAIM", stream, self._group, self._name, str(int(self._claim_after * 1000)), "0",
                "COUNT", str(max(1, FETCHED // len(self._streams))),
            )  # fmt: skip
            found[stream] = answer[1]
        return await self._incoming(found)

    async def _incoming(self, found: Mapping[str, Sequence[Any]]) -> list[Incoming]:
        """Return what can be stored; entries that were deleted before they were read are acknowledged."""
        messages: list[Incoming] = []
        deleted: dict[str, list[bytes]] = {}
        for stream, entries in found.items():
            for entry in entries:
                if entry is None:
                    continue
                id, fields = entry
                if fields is None:
                    deleted.setdefault(stream, []).append(id)
                else:
                    messages.append(_incoming(stream, id, fields))
        if deleted:
            log.warning(
                "%s: %s entries were deleted from the stream before they were stored here; they are lost",
                self.shown, sum(map(len, deleted.values())),
            )  # fmt: skip
            await self._acknowledge(deleted)
        return messages

    async def _ask(self, *words: str | bytes, wait: float = 0.0) -> Any:
        if self._wire is None:
            raise Away(f"{self.shown}: not open")
        answer = await self._link.ask(self._wire, *words, wait=wait)
        if isinstance(answer, Exception):
            raise Away(f"{self.shown}: {answer}")
        return answer


def _fields(message: Message) -> Iterator[str]:
    for name, value in attributes(message).items():
        yield PREFIX + name
        yield value
    yield CONTENT_TYPE
    yield JSON


def _incoming(stream: str, id: bytes, fields: Sequence[bytes]) -> Incoming:
    given = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        kind = given[CONTENT_TYPE.encode()].decode() if CONTENT_TYPE.encode() in given else None
        found = {
            name.decode().removeprefix(PREFIX): value.decode()
            for name, value in given.items()
            if name.startswith(PREFIX.encode())
        }
    except UnicodeDecodeError:
        kind, found = None, {}  # cannot be read; kept under the fallback id
    if kind is not None and kind.partition(";")[0].strip().lower() == STRUCTURED:
        found = {}
    body = given.get(DATA.encode())
    if body is None:  # not one of ours: all that there is
        shown = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in given.items()}
        body = json.dumps(shown).encode()
    return Incoming(
        attributes=found,
        body=body,
        content_type=kind,
        handle=(stream, id),
        fallback_id=f"{stream}:{id.decode()}",
    )


class _Link:
    """How to connect to a server."""

    def __init__(self, url: str, connect: Mapping[str, Any] | None) -> None:
        check_url(url, SCHEMES)
        self._url = url
        self.shown = hide_secrets(url)
        self._options = dict(connect or {})

    async def connect(self) -> _Wire:
        """Return a new connection, which does not retry anything."""
        redis, retry = library("redis.asyncio", "redis"), library("redis.asyncio.retry", "redis")
        backoff = library("redis.backoff", "redis")
        options = {
            "client_name": "holdfast", "socket_connect_timeout": CONNECT, **self._options,
            "protocol": 2, "socket_timeout": None, "retry": retry.Retry(backoff.NoBackoff(), 0),
        }  # fmt: skip
        try:
            pool = redis.ConnectionPool.from_url(self._url, **options)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"{self.shown}: {error}") from None
        connection = pool.make_connection()
        try:
            with self.errors():
                async with asyncio.timeout(CONNECT):
                    await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return _Wire(connection)

    async def ask(self, wire: _Wire, *words: str | bytes, wait: float = 0.0) -> Any:
        """Return the answer to a command, which may be an error of the server; raises if there is none."""
        with self.errors():
            async with asyncio.timeout(CONNECT + wait):
                await wire.write([words])
                return await wire.answer()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Say of each way in which a connection fails that the server is away."""
        client = library("redis.exceptions", "redis")
        try:
            yield
        except TimeoutError:
            raise Away(f"{self.shown} did not answer in time") from None
        except (client.RedisError, OSError) as error:
            raise Away(f"{self.shown}: {str(error) or type(error).__name__}") from error


class _Wire:
    """A connection: commands and answers, as they come."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        assert connection._writer is not None
        self._writer = connection._writer

    async def write(self, commands: Sequence[Sequence[str | bytes]]) -> None:
        """Write commands."""
        await self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)

    async def answer(self) -> Any:
        """Return the next answer; an error of the server is returned, too."""
        try:
            return await self._connection.read_response(disable_decoding=True, disconnect_on_error=False)
        except library("redis.exceptions", "redis").ResponseError as error:
            return error

    def abort(self) -> None:
        """Close the connection at once. The client's `disconnect` would write the rest, perhaps much later."""
        self._writer.transport.abort()
        self._connection._writer = self._connection._reader = None


async def _warn(link: _Link, wire: _Wire) -> None:
    """Say if the server may forget what it has confirmed."""
    info: dict[str, str] = {}
    for section in ("memory", "persistence"):
        answer = await link.ask(wire, "INFO", section)
        if isinstance(answer, bytes):
            info |= dict(re.findall(r"^(\w+):([^\r\n]*)", answer.decode(), re.MULTILINE))
    if info.get("aof_enabled") == "0":
        log.warning(
            "%s: Redis has no append-only file, so a restart loses what it has confirmed; set appendonly yes",
            link.shown,
        )
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        log.warning(
            "%s: Redis deletes streams when its memory is full (%s); set maxmemory-policy noeviction",
            link.shown, info["maxmemory_policy"],
        )  # fmt: skip


def _word(error: Exception) -> str:
    """Return the server's word for an error, such as WRONGTYPE."""
    return _CLASSES.get(type(error).__name__) or str(error).partition(" ")[0]
