"""What keeps one slow or dead endpoint from holding up the others: slots per host, and a breaker per endpoint."""

from __future__ import annotations

import asyncio
import random
from collections import deque

PER_HOST = 4
"""Requests to one host at the same time."""
PATIENCE = 2.0
"""Seconds after which a batch begins no further request to a host: what is left is postponed, so the batch can end."""
TURN = 10
"""Requests after which a batch passes its slot on, if another batch waits for one."""
MOST_URLS = 10_000
"""URLs that are remembered; idle ones are forgotten beyond that."""

OPENS_AFTER = 5
"""Failed connections in a row after which an endpoint is left alone."""
FIRST_WAIT, LONGEST_WAIT = 5.0, 600.0


class Busy(Exception):
    """Not sent now, because of other requests. It says nothing about the server."""


class Slots:
    """The slots of one host, or of what requests share. First come, first served."""

    __slots__ = ("_free", "_waiting", "number", "pace")

    def __init__(self, number: int = PER_HOST) -> None:
        self.number = number
        self._free = number
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.pace = 0.0
        """Seconds that a request takes, as an average that moves."""

    @property
    def wanted(self) -> bool:
        """Does anybody wait for a slot?"""
        return bool(self._waiting)

    @property
    def idle(self) -> bool:
        return self._free == self.number

    async def acquire(self, seconds: float) -> None:
        """Take a slot; raises TimeoutError if none becomes free in time."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            async with asyncio.timeout(seconds):
                await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self.give_back()  # it was given to us in the moment in which we stopped waiting
            elif mine in self._waiting:  # unless one that was given back in the same moment has passed over it
                self._waiting.remove(mine)
            raise

    def give_back(self) -> None:
        """Give the slot to the next that waits."""
        while self._waiting:
            following = self._waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        self._free += 1


class Breaker:
    """One endpoint that cannot be reached. While it is open, one message at a time tries."""

    __slots__ = ("_failures", "_until", "_wait")

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0
        self._wait = 0.0

    def refuses(self, now: float) -> float | None:
        """Seconds for which to postpone a message; None: send it."""
        if now < self._until:
            left = self._until - now
            return left + random.uniform(0.1, 1.0) * max(left, 1.0)
        if self._failures >= OPENS_AFTER:  # this one tries; the others wait for what becomes of it
            self._until = now + max(self._wait, FIRST_WAIT)
        return None

    def failed(self, now: float) -> None:
        """A connection has failed."""
        self._failures += 1
        if self._failures >= OPENS_AFTER:
            self._wait = min(max(self._wait * 2, FIRST_WAIT), LONGEST_WAIT)
            self._until = now + self._wait

    def asked_to_wait(self, now: float, seconds: float) -> None:
        """The server has said when to come back."""
        self._until = max(self._until, now + min(seconds, LONGEST_WAIT))
