"""The source: entries that a consumer group gets."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ConfigurationError
from .. import Away
from ..cloudevents import is_structured
from ..consuming import FETCHED, FIRST, LINGER, Incoming
from .link import CONTENT_TYPE, DATA, PREFIX, Link, Wire, warn

log = logging.getLogger("holdfast.transports")


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
        self._link = Link(url, connect)
        self._streams = [stream] if isinstance(stream, str) else list(stream)
        if not self._streams or not group or not name:
            raise ConfigurationError("expected the names of a stream, a group and a consumer, got an empty one")
        self._group = group
        self._name = name
        self._claim_after = claim_after
        self._wire: Wire | None = None
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
                await warn(self._link, wire)
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
    if is_structured(kind):
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
