"""The one claimer of a worker process: its courses take turns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from ..db.link import Link
from ..model.job import Claim
from .claim import Batch, Course, FreeCourse, Known
from .guarded import GuardedCourse

SELDOM = 0.1
"""Seconds between looks at a course that had nothing, while another has rows."""


class _Turn(msgspec.Struct, eq=False):
    """A course, whether the last look at it found rows, and when that was."""

    course: Course
    found: bool = True
    at: float = 0.0

    @property
    def due(self) -> bool:
        return self.found or time.monotonic() - self.at > SELDOM

    def looked(self, found: bool) -> None:
        self.found, self.at = found, time.monotonic()


class Claimer:
    def __init__(
        self, link: Link, worker: str, queues: Sequence[str], known: Known, lease: float, ordered: bool = False
    ) -> None:
        self._queues = queues
        self._free = FreeCourse(link, worker, queues, known, lease)
        self._guarded = GuardedCourse(link, worker, queues, known, lease)
        self.courses: Sequence[Course] = (self._free, self._guarded)
        self._free.looks_for_guarded = not ordered
        self._turns = [_Turn(self._free)]
        """The courses in use; the one that was asked last is at the end. The guarded one is in use when an ordered or
        owned row has been seen, or a task is ordered."""
        if ordered:
            self._use_guarded()
        self._empty: set[Course] = set()
        """The courses that had nothing, since something was found or since all of them had nothing."""

    @property
    def rescans(self) -> int:
        return sum(course.rescans for course in self.courses)

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` due rows of one of the courses."""
        if limit < 1:
            return Batch([])
        turn = self._next_turn()
        batch = await turn.course.claim(limit)
        found = bool(batch.claims) or batch.more
        turn.looked(found)
        if self._free.guarded_waits or self._free.owned:
            self._use_guarded()
        more = batch.more or (not batch.claims and self._others_wait(turn.course))
        if found or not more:
            self._empty.clear()
        return Batch(batch.claims, batch.suspects, more, batch.full)

    def _use_guarded(self) -> None:
        if all(turn.course is not self._guarded for turn in self._turns):
            self._turns.insert(0, _Turn(self._guarded))
            self._free.looks_for_guarded = False

    def _others_wait(self, course: Course) -> bool:
        """This course had nothing. Must another one be asked before the worker may sleep?"""
        self._empty.add(course)
        return len(self._empty) < len(self._turns)

    def _next_turn(self) -> _Turn:
        """They take turns; one that had nothing is asked less often while another has rows."""
        next_one, last = self._turns[0], self._turns[-1]
        if not self._empty and not next_one.due:
            return last
        self._turns.append(self._turns.pop(0))
        return next_one

    # Keys whose row has just ended here

    def vacate(self, claim: Claim) -> None:
        """Note that this row of an ordered key has ended here: its key may have a new head."""
        self._guarded.vacate(claim)

    @property
    def vacated(self) -> int:
        """How many keys wait to be handed over."""
        return self._guarded.vacated

    async def hand_over(self, link: Link, limit: int) -> list[Claim]:
        """Claim up to `limit` rows of the vacated keys. The next rows of the others become claimable by everyone."""
        return await self._guarded.hand_over(link, limit)

    @property
    def locked_out(self) -> bool:
        """Did others have all keys of the last hand-over locked?"""
        return self._guarded.locked_out

    async def give_away(self, link: Link) -> None:
        """Make the next rows of the vacated keys claimable by everyone, also by workers that have passed them."""
        await self._guarded.give_away(link)

    # Buckets

    @property
    def owned(self) -> list[str]:
        """Those of our queues whose buckets have owners."""
        return [queue for queue in self._free.owned if queue in self._queues]

    def own(self, shares: Mapping[str, Sequence[int]]) -> None:
        """Set the buckets that this worker owns from now on, by queue."""
        self._guarded.own(shares)

    # Suspects

    async def claim_suspect(self) -> Claim | None:
        """Claim one suspect."""
        return await self._guarded.claim_suspect()

    async def suspect_waits(self) -> bool:
        """Is there a suspect that may run now?"""
        return await self._guarded.suspect_waits()
