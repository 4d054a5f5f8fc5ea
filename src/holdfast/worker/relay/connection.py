"""The connection of a relay to its destination: opened, closed, and opened again after a pause that grows."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from ...db.link import backoff
from ...model.occurrences import Occurrences
from ...transports import Transport, Unavailable

OPEN_WITHIN = 15.0
CLOSE_WITHIN = 5.0
OPEN_AGAIN = 10.0
"""Most seconds between two tries to connect."""
UNAVAILABLE_AGAIN = 1.0
"""Least seconds until it is asked again after it has said that it takes nothing now. A part of it may work, and answer
every batch in between."""
STAND_BY = 0.2
"""Seconds between two looks whether another worker of this process still uses the same transport."""
SAY_AGAIN = 60.0
"""Seconds after which an outage that goes on is reported again."""

_in_use: set[int] = set()
"""The transports that relays of this process use. A transport is an object of the application, with one connection: of
two workers in one process, the second stands by."""


class Connection:
    def __init__(self, route: str, transport: Transport, occurrences: Occurrences, draining: asyncio.Event) -> None:
        self._route = route
        self._transport = transport
        self._occurrences = occurrences
        self._draining = draining
        self._failures = 0
        """In a row: tries to connect, and lost connections."""
        self._at_least = 0.0
        """Seconds of the next pause."""
        self.unavailable = False
        """Has the destination said, since it was connected, that it takes nothing now?"""
        self._reached = True
        """Did the last try to connect succeed? Subscribers hear of each change."""
        self._said_unavailable_at = -SAY_AGAIN
        self._said_at = -SAY_AGAIN
        self._said_down = False
        """Was the last report that it is lost or away? Otherwise, that it is connected again."""
        self._said_away = False
        """Was this outage reported as one in which it cannot be reached?"""

    async def open(self) -> bool:
        """Wait for its turn, and connect. False: not now."""
        if self._failures or self._at_least:
            pause, self._at_least = max(self._at_least, self._longer()), 0.0
            await self._pause(pause)
        if id(self._transport) in _in_use:
            await self._pause(STAND_BY)
            return False
        if self._draining.is_set():
            return False
        _in_use.add(id(self._transport))
        try:
            async with asyncio.timeout(OPEN_WITHIN):
                await self._transport.open()
        except BaseException as error:
            await self.close()
            if not isinstance(error, Exception):
                raise
            self._reach(False)
            self._failures += 1
            if self._to_report(away=True):
                self._occurrences.destination_away(self._route, self._transport.shown, error)
            return False
        self._reach(True)
        self.unavailable = False
        if self._said_down:
            self._said_down = False
            self._occurrences.destination_back(self._route, self._transport.shown)
        return True

    async def close(self) -> None:
        """Disconnect, and leave the transport to others."""
        try:
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_WITHIN):
                    await self._transport.close()
        finally:
            _in_use.discard(id(self._transport))

    def lost(self, rows: int, error: BaseException) -> None:
        """Note that it was lost, with so many messages of unknown fate."""
        self._failures += 1
        self.unavailable = isinstance(error, Unavailable)
        self._at_least = UNAVAILABLE_AGAIN if self.unavailable else 0.0
        if isinstance(error, Unavailable):  # nothing was lost; and what works of it may answer, and end no outage
            if (now := time.monotonic()) - self._said_unavailable_at >= SAY_AGAIN:
                self._said_unavailable_at = now
                self._occurrences.destination_unavailable(self._route, self._transport.shown, rows, error)
        elif self._to_report(away=False):
            self._occurrences.connection_lost(self._route, self._transport.shown, rows, error)

    def works(self) -> None:
        """Note that everything that was sent was answered."""
        self._failures = 0
        self._said_away = False

    def _reach(self, reached: bool) -> None:
        if reached is not self._reached:
            self._reached = reached
            self._occurrences.destination_reached(self._route, reached)

    def _to_report(self, away: bool) -> bool:
        """Is this failure to be reported? The first one, the first try to connect that fails, and then one a minute."""
        now = time.monotonic()
        first = self._failures == 1 or (away and not self._said_away)
        if not first and now - self._said_at < SAY_AGAIN:
            return False
        self._said_at, self._said_down = now, True
        self._said_away = self._said_away or away
        return True

    def _longer(self) -> float:
        """Seconds to wait, more after each failure. In an outage of days, there are very many."""
        doubled = min(max(0, self._failures - 6), 4)
        return min(OPEN_AGAIN, backoff(self._failures) * float(2**doubled))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()
