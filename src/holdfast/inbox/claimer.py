"""The one claimer of a worker process: takes turns between the free and the guarded course."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..db.link import Link
from ..model.job import Claim
from .claim import Batch, FreeCourse, Known
from .guarded import GuardedCourse

SELDOM = 0.02
"""Seconds between looks at the guarded course when the last one found nothing and the free one finds plenty."""


class Claimer:
    def __init__(
        self, link: Link, worker: str, queues: Sequence[str], known: Known, lease: float, ordered: bool = False
    ) -> None:
        self.free = FreeCourse(link, worker, queues, known, lease)
        self.guarded = GuardedCourse(link, worker, queues, known, lease)
        self.free.looks_for_guarded = not ordered
        self._in_use = ordered
        """Has anything ordered or owned been seen, or been promised by the tasks? Then both courses are run."""
        self._guarded_next = False
        self._guarded_found = False
        self._guarded_at = 0.0
        self._empty_in_a_row = 0

    @property
    def rescans(self) -> int:
        return self.free.rescans + self.guarded.rescans

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` due rows, of one course or the other."""
        if limit < 1:
            return Batch([])
        guarded = self._choose()
        batch = await (self.guarded.claim(limit) if guarded else self.free.claim(limit))
        if guarded:
            self._guarded_at = time.monotonic()
            self._guarded_found = bool(batch.claims) or batch.more
        else:
            self._in_use = self._in_use or self.free.guarded_waits or bool(self.free.owned)
            self.free.looks_for_guarded = not self._in_use
        self._guarded_next = self._in_use and not guarded
        self._empty_in_a_row = 0 if batch.claims or batch.more else self._empty_in_a_row + 1
        more = batch.more or (not batch.claims and self._in_use and self._empty_in_a_row < 2)
        return Batch(batch.claims, batch.suspects, more)

    def _choose(self) -> bool:
        """The guarded course this time?"""
        if not self._guarded_next:
            return False
        return self._guarded_found or self._empty_in_a_row > 0 or time.monotonic() - self._guarded_at > SELDOM

    async def claim_suspect(self) -> Claim | None:
        """Claim one row that is to run alone."""
        return await self.guarded.claim_suspect()
