"""The destination: entries that the server has confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...model.event import Delivered, Message, Refused
from .. import Away, Settle, Unavailable
from ..cloudevents import JSON, attributes
from ..naming import Template
from .link import CONTENT_TYPE, DATA, PREFIX, Link, Wire, warn

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
        self._link = Link(url, connect)
        self._stream = Template(stream, "stream")
        self._timeout = timeout
        self.batch = batch
        self.parallel = parallel
        self._idle: list[Wire] = []
        self._used: set[Wire] = set()
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
                await warn(self._link, wire)
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
        later: Unavailable | None = None
        try:
            with self._link.errors():
                async with asyncio.timeout(self._timeout):
                    await wire.write(commands)
                    for message, stream in sent:
                        answer = await wire.answer()
                        if isinstance(answer, Exception):
                            word = _word(answer)
                            if word in NOT_NOW:
                                later = Unavailable(f"{self._link.shown}: {word} {answer}")
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

    async def _limit(self, wire: Wire) -> int:
        """Return the largest value that the server takes: for a larger one, it closes the connection."""
        answer = await self._link.ask(wire, "CONFIG", "GET", "proto-max-bulk-len")
        # Many hosting services do not allow CONFIG.
        return int(answer[1]) if isinstance(answer, list) and len(answer) == 2 else LARGEST


def _fields(message: Message) -> Iterator[str]:
    for name, value in attributes(message).items():
        yield PREFIX + name
        yield value
    yield CONTENT_TYPE
    yield JSON


def _word(error: Exception) -> str:
    """Return the server's word for an error, such as WRONGTYPE."""
    return _CLASSES.get(type(error).__name__) or str(error).partition(" ")[0]
