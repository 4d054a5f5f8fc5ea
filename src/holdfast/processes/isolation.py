"""The supervisor's isolation processes: started while suspects wait, beside the ordinary processes.

    a process of ours died, and its running rows were handed back    start one, when its successor had time to start
    ordinary processes see suspects, and still after a while         start one: no other host runs them
    an isolation process sees suspects, and all are engaged          start another, up to `most`

Each ends by itself when nothing is left for it. So if many jobs of a crash turn out to be long, more processes share
them, and a suspect that kills its process affects no other job.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from ..db.link import backoff
from ..model.occurrences import Occurrences

log = logging.getLogger("holdfast.supervisor")

MOST = 8
"""Most isolation processes per supervisor, or its concurrency if that is less."""
LOOK_EVERY = 0.25
ENGAGED = 1.0
"""Seconds after which an isolation process that holds a row, or is stopped, counts as engaged."""
AFTERWARDS = 1.0
"""Seconds that the successor of a dead process has to start before an isolation process: it runs all other jobs."""
OTHERS = 1.0, 5.0
"""Seconds for which suspects of other hosts are left to those; random, so that not every host starts a process."""


class End(msgspec.Struct, frozen=True):
    """How a process ended."""

    code: int
    worked: bool
    """Had it started any job?"""


class Place(Protocol):
    """A place for one process."""

    @property
    def suspects(self) -> bool:
        """Does it report that suspects wait which it does not take?"""
        ...

    @property
    def engaged(self) -> bool:
        """Does it hold rows, or is it stopped? Read from its ledger: a handler may block its loop."""
        ...

    @property
    def running(self) -> int:
        """How many handlers run in it."""
        ...

    def forget_suspects(self) -> None:
        """Reset `suspects`, until it reports them again."""

    async def live(self) -> End:
        """Start a process, keep it until it ends, and recover its rows."""
        ...

    def drain(self) -> None: ...

    def stop_now(self) -> None: ...


class Isolation:
    def __init__(
        self, new_place: Callable[[], Place], ordinary: Sequence[Place], most: int, occurrences: Occurrences
    ) -> None:
        self._occurrences = occurrences
        self._new_place = new_place
        self._ordinary = ordinary
        self._most = min(most, MOST)
        self._lives: dict[Place, asyncio.Task[None]] = {}
        self._engaged: dict[Place, float] = {}
        """Since when each is engaged."""
        self._over = False
        self._asked_for: float | None = None
        """When to start the first one, because this supervisor has handed suspects back."""
        self._left_at: float | None = None
        """When to start the first one, if ordinary processes still see suspects then."""
        self._failures = 0
        self._codes = [0]

    @property
    def running(self) -> int:
        """How many handlers run in isolation."""
        return sum(place.running for place in self._lives)

    def ask(self) -> None:
        """Ask for a process: rows were handed back whose attempts may have killed their process."""
        if self._asked_for is None:  # another death does not delay it
            self._asked_for = time.monotonic() + AFTERWARDS

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            if not self._over:
                self._go_round(time.monotonic())
            await asyncio.sleep(LOOK_EVERY)

    def drain(self) -> None:
        self._over = True
        for place in self._lives:
            place.drain()

    def stop_now(self) -> None:
        for place in self._lives:
            place.stop_now()

    async def ended(self) -> int:
        """Wait for all that are left; return the exit code."""
        self.drain()
        await asyncio.gather(*self._lives.values())
        return max(self._codes)

    def _go_round(self, now: float) -> None:
        asked = self._asked_for is not None and now >= self._asked_for
        left = self._left_by_others(now)
        if not self._all_engaged(now):
            if asked:
                self._asked_for = None  # one is there that will see them
        elif len(self._lives) < self._most and (asked or left or any(place.suspects for place in self._lives)):
            self._start()

    def _left_by_others(self, now: float) -> bool:
        if not any(place.suspects for place in self._ordinary):
            self._left_at = None
        elif self._left_at is None:
            self._left_at = now + random.uniform(*OTHERS)
        return self._left_at is not None and now >= self._left_at

    def _all_engaged(self, now: float) -> bool:
        self._engaged = {place: self._engaged.get(place, now) for place in self._lives if place.engaged}
        # One that runs short jobs, one after the other, looks idle at times; what it reports itself counts more.
        return all(place.suspects or now - self._engaged.get(place, now) >= ENGAGED for place in self._lives)

    def _start(self) -> None:
        self._asked_for = self._left_at = None
        place = self._new_place()
        for other in (*self._ordinary, *self._lives):
            other.forget_suspects()
        self._lives[place] = asyncio.create_task(self._keep(place), name="holdfast isolation")

    async def _keep(self, place: Place) -> None:
        """Keep one process until it ends."""
        try:
            end = await place.live()
        except OSError as error:
            self._occurrences.process_not_started(True, error)
            end = End(1, worked=False)
        except Exception:
            log.exception("an isolation process could not be supervised; its leases will expire")
            end = End(1, worked=False)
        finally:
            del self._lives[place]
        if self._over:
            self._codes.append(0 if end.code in (0, -signal.SIGTERM) else 1)
        elif end.code == 0:  # it has found no suspects for a while
            self._asked_for = None
            self._failures = 0
        else:  # its job killed it, or it cannot start
            self._failures = 0 if end.worked else self._failures + 1
            self._asked_for = time.monotonic() + (backoff(self._failures) * 5 if self._failures else 0)
