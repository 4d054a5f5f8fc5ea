"""The one claimer of a worker process: takes turns between the free and the guarded course."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..db.link import Link
from ..model.job import Claim
from .claim import Batch, FreeCourse, Known
from .guarded import GuardedCourse

SELDOM = 0.1
"""Seconds between looks at a course that had nothing while the other has plenty."""


@dataclass(slots=True)
class _Turn:
    """What the last look at a course gave, and when."""

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
        self.free = FreeCourse(link, worker, queues, known, lease)
        self.guarded = GuardedCourse(link, worker, queues, known, lease)
        self.free.looks_for_guarded = not ordered
        self._in_use = ordered
        """Has anything ordered or owned been seen, or been promised by the tasks? Then both courses are run."""
        self._turns = {False: _Turn(), True: _Turn()}
        """Of the free and of the guarded course."""
        self._last = True
        self._in_vain: set[bool] = set()
        """The courses that were asked since something was found, or since all of them had nothing."""

    @property
    def rescans(self) -> int:
        return self.free.rescans + self.guarded.rescans

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` due rows, of one course or the other."""
        if limit < 1:
            return Batch([])
        guarded = self._last = self._choose()
        batch = await (self.guarded.claim(limit) if guarded else self.free.claim(limit))
        found = bool(batch.claims) or batch.more
        self._turns[guarded].looked(found)
        if not guarded:
            self._in_use = self._in_use or self.free.guarded_waits or bool(self.free.owned)
            self.free.looks_for_guarded = not self._in_use
        more = batch.more or (not batch.claims and self._other_waits(guarded))
        if found or not more:
            self._in_vain.clear()
        return Batch(batch.claims, batch.suspects, more, batch.full)

    def _other_waits(self, guarded: bool) -> bool:
        """This course had nothing. Is the other one still to be asked, before the worker may sleep?"""
        self._in_vain.add(guarded)
        return self._in_use and len(self._in_vain) < 2

    def _choose(self) -> bool:
        """The guarded course this time? They take turns; one that had nothing is asked seldom while the other has."""
        if not self._in_use:
            return False
        other = not self._last
        return other if self._in_vain or self._turns[other].due else self._last

    async def claim_suspect(self) -> Claim | None:
        """Claim one row that is to run alone."""
        return await self.guarded.claim_suspect()

    async def suspect_waits(self) -> bool:
        """Is there a row that is to run alone, and may run now?"""
        return await self.guarded.suspect_waits()
