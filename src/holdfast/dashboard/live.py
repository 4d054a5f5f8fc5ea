"""What viewers see change: one poller for all of them, which sleeps without any.

Each message is the whole state, so that one that is lost does not matter, and a viewer who comes back needs no history.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from .answers import encoded, in_words

EVERY = 0.5
"""Seconds between two looks, so that viewers see a change within one."""
PING = 15.0
LARGEST = 8192
"""Bytes of a state."""
State = dict[str, Any]


class Live:
    """The newest state, and who waits for the next."""

    def __init__(self, look: Callable[[], Awaitable[State]], schema: str, every: float = EVERY) -> None:
        self._look = look
        self._schema = schema
        self._every = every
        self._viewers: set[asyncio.Event] = set()
        self._newest = b""
        self._taken = 0.0
        self._poller: asyncio.Task[None] | None = None
        self._closed = False
        self.polls = 0
        """How often it has looked."""

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events until the viewer goes."""
        changed = asyncio.Event()
        self._viewers.add(changed)
        try:
            self._wake()
            if self._newest and time.monotonic() - self._taken < 2 * self._every:
                yield _event(self._newest)
            while True:
                try:
                    await asyncio.wait_for(changed.wait(), PING)
                except TimeoutError:
                    yield b": ping\n\n"
                    continue
                changed.clear()
                yield _event(self._newest)
        finally:
            self._viewers.discard(changed)

    async def close(self) -> None:
        self._closed = True
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller

    def _wake(self) -> None:
        if not self._closed and (self._poller is None or self._poller.done()):
            self._poller = asyncio.create_task(self._poll(), name="holdfast dashboard poller")

    async def _poll(self) -> None:
        while self._viewers:
            began = time.monotonic()
            newest = fitting(await self._state())
            self.polls += 1
            self._taken = time.monotonic()
            if newest != self._newest:
                self._newest = newest
                for viewer in self._viewers:
                    viewer.set()
            await asyncio.sleep(max(self._every - (time.monotonic() - began), self._every / 4))

    async def _state(self) -> State:
        try:
            return await self._look()
        except Exception as error:
            return {"problem": in_words(error, self._schema)[1]}


def fitting(state: State) -> bytes:
    """Return the state as JSON, without its last queues if it were too large; "more" says how many are left out."""
    text = encoded(state)
    queues = state.get("queues", [])
    while len(text) > LARGEST and queues:
        queues = queues[: len(queues) * 3 // 4]
        text = encoded({**state, "queues": queues, "more": len(state["queues"]) - len(queues)})
    return text


def _event(state: bytes) -> bytes:
    return b"data: " + state + b"\n\n"
