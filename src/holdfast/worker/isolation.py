"""The supervisor's isolation processes: started while suspects wait, beside the processes that run everything else.

    a process of ours died, and what ran in it was handed back    start one now: its suspects are due in a moment
    an ordinary process sees suspects, and still after a while    start one: whoever handed them back is not there
    every isolation process is engaged, and more suspects wait    start another, up to `most`

Each ends by itself when there is nothing left for it. So the more of a crash's jobs turn out to be long, the more
processes share them, and no suspect that kills its process takes another job along.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from ..db.link import backoff

log = logging.getLogger("holdfast.supervisor")

MOST = 8
"""Isolation processes per supervisor, if its concurrency is not less."""
LOOK_EVERY = 0.25
OTHERS = 1.0, 5.0
"""Seconds for which suspects that others handed back are left to those; drawn, lest a whole fleet starts processes."""


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended."""

    code: int
    worked: bool
    """Had it started any job?"""


class Place(Protocol):
    """A place for one process."""

    @property
    def suspects(self) -> bool:
        """Does it say that suspects wait which it does not take?"""
        ...

    def forget_suspects(self) -> None:
        """Until it says so again."""

    async def live(self) -> End:
        """Start a process, keep it, and clear up after it."""
        ...

    def drain(self) -> None: ...

    def stop_now(self) -> None: ...


class Isolation:
    def __init__(self, new_place: Callable[[], Place], ordinary: Iterable[Place], most: int) -> None:
        self._new_place = new_place
        self._ordinary = ordinary
        self._most = min(most, MOST)
        self._lives: dict[Place, asyncio.Task[None]] = {}
        self._asked = False
        self._over = False
        self._due_at: float | None = None
        """When what ordinary processes see is ours, if they see it then."""
        self._failures = 0
        self._not_before = 0.0
        self._codes = [0]

    def ask(self) -> None:
        """Rows were handed back whose attempts may have taken their process down."""
        self._asked = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            now = time.monotonic()
            if not self._over and now >= self._not_before and self._wanted(now):
                self._start()
            await asyncio.sleep(LOOK_EVERY)

    def drain(self) -> None:
        self._over = True
        for place in self._lives:
            place.drain()

    def stop_now(self) -> None:
        for place in self._lives:
            place.stop_now()

    async def ended(self) -> int:
        """Wait for all that are left; the exit code."""
        self.drain()
        await asyncio.gather(*self._lives.values())
        return max(self._codes)

    def _wanted(self, now: float) -> bool:
        if self._lives:
            return len(self._lives) < self._most and all(place.suspects for place in self._lives)
        return self._asked or self._left_by_others(now)

    def _left_by_others(self, now: float) -> bool:
        if not any(place.suspects for place in self._ordinary):
            self._due_at = None
        elif self._due_at is None:
            self._due_at = now + random.uniform(*OTHERS)
        return self._due_at is not None and now >= self._due_at

    def _start(self) -> None:
        self._asked = False
        self._due_at = None
        place = self._new_place()
        for other in (*self._ordinary, *self._lives):
            other.forget_suspects()
        self._lives[place] = asyncio.create_task(self._keep(place), name="holdfast isolation")

    async def _keep(self, place: Place) -> None:
        """One process, to its end."""
        try:
            end = await place.live()
        except OSError as error:
            log.warning("an isolation process could not be started: %s; trying again", error)
            end = End(1, worked=False)
        finally:
            del self._lives[place]
        if self._over:
            self._codes.append(0 if end.code in (0, -signal.SIGTERM) else 1)
        elif end.code == 0:  # it has looked for suspects long enough
            self._asked = False
            self._failures = 0
        else:  # its job did that, or it cannot even start
            self._asked = True
            self._failures = 0 if end.worked else self._failures + 1
            self._not_before = time.monotonic() + (backoff(self._failures) * 5 if self._failures else 0)
