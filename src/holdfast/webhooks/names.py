"""Look-ups of names, in threads of their own. A name whose server is slow must not hold up the others.

A name has one look-up at a time, whoever wants it. Names that were found quickly the last time have threads of their
own: whoever adds endpoints can make up any number of names that nobody answers for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .limits import MOST_URLS, Slots

LOOKUPS = 16
"""Threads of each kind. A slow name server must not take those of the application."""
QUICK = 1.0
"""Seconds within which a name is found quickly."""

Wait = Callable[[Slots], Awaitable[None]]
"""Takes a slot, or raises."""


class Names:
    def __init__(self, look_up: Callable[[str, int, int], list[Any]]) -> None:
        self._look_up = look_up
        self._proven, self._others = _Threads("proven"), _Threads("others")
        self._quick: set[str] = set()
        """Names that were found quickly the last time."""
        self._running: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}

    async def find(self, host: str, port: int, family: int, wait: Wait) -> list[Any]:
        """What the look-up says, once there is a thread for it."""
        while (running := self._running.get((host, family))) is None:
            threads = self._proven if host in self._quick else self._others
            await wait(threads.slots)
            if (host, family) in self._running:  # somebody else was faster
                threads.slots.give_back()
            else:
                self._begin(host, port, family, threads)
        return await asyncio.shield(running)  # others may wait for it, too

    def close(self) -> None:
        for threads in (self._proven, self._others):
            threads.pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, host: str, port: int, family: int, threads: _Threads) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def ended(done: asyncio.Future[list[Any]]) -> None:
            del self._running[host, family]
            threads.slots.give_back()
            self._quick.discard(host)
            if not done.cancelled() and done.exception() is None and loop.time() - began < QUICK:
                if len(self._quick) >= MOST_URLS:
                    self._quick.clear()
                self._quick.add(host)

        running = loop.run_in_executor(threads.pool, self._look_up, host, port, family)
        self._running[host, family] = running
        running.add_done_callback(ended)


class _Threads:
    """Some threads, and a slot for each."""

    def __init__(self, name: str) -> None:
        self.slots = Slots(LOOKUPS)
        self.pool = ThreadPoolExecutor(LOOKUPS, thread_name_prefix=f"holdfast-webhook-names-{name}")
