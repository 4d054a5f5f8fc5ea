"""The guarded claim: heads of ordered keys, rows of owned buckets, and rows that are to run alone.

A key that falls vacant, because its row has ended here, is looked at by the next claim: its blocked head comes to us
without a way round by the index. What that misses (a worker that dies between the end of a row and the next claim,
hand-written SQL) housekeeping releases.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import asyncpg

from ..db.link import Link
from ..model.floor import Lane, Position
from ..model.job import Claim
from .claim import AT, AVAILABLE_AT, CLAIM, LANE, PATROL_EVERY, SEQ, Batch, Course, Known

SCAN = 250
"""Most candidates, and most vacated keys, per claim: each may hold an advisory lock, and their memory is shared."""
SCAN_LEAST = 50

SEEN, PARKED, END_LANE, END_AT, END_SEQ = range(24, 29)

Key = tuple[str, str]
"""(queue, key)"""


class GuardedCourse(Course):
    def __init__(self, link: Link, worker: str, queues: Sequence[str], known: Known, lease: float) -> None:
        super().__init__(link, _lanes(queues, {}))
        self._worker = worker
        self._queues = list(queues)
        self._known = known
        self._lease = lease
        self._patrol_at = time.monotonic() + PATROL_EVERY
        self._vacated: dict[Key, None] = {}

    def vacate(self, claim: Claim) -> None:
        """This row has ended here, somehow: its key may have a new head."""
        self._vacated[claim.queue, claim.key] = None

    @property
    def vacated(self) -> bool:
        return bool(self._vacated)

    def own(self, shares: dict[str, Sequence[int]]) -> None:
        """These buckets of these queues are ours from now on."""
        lanes = _lanes(self._queues, shares)
        if lanes != list(self.floor.lanes):
            self.floor.relane(lanes)
            self._rescan_at = 0.0

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` rows."""
        if time.monotonic() >= self._patrol_at:
            # Few rows stay pending behind this floor, so the patrol is a look at all of them.
            self._patrol_at = time.monotonic() + PATROL_EVERY
            self.floor.restart()
        vacated = list(self._vacated)[:SCAN]
        rescan = self._rescan_due()
        scan = min(max(limit - len(vacated), SCAN_LEAST), SCAN)
        began = time.monotonic()
        rows = await self._run(self.floor.starts(rescan), vacated, scan, limit, False, rescan)
        for key in vacated:
            del self._vacated[key]
        claims = [Claim(*row[CLAIM]) for row in rows if row[CLAIM.start] is not None]
        head = rows[0]
        full = head[SEEN] >= scan
        self._settle(rows, self._ends(rows, full), began, rescan, idle=not claims and not full)
        return Batch(claims, more=not claims and head[PARKED] > 0)

    async def claim_suspect(self) -> Claim | None:
        """Claim one row that is to run alone."""
        rows = await self._run(self.floor.starts(False), [], 0, 1, True, False)
        return Claim(*rows[0][CLAIM]) if rows[0][CLAIM.start] is not None else None

    async def release(self, deadline: float) -> None:
        """Let others have the keys that fell vacant here."""
        while vacated := list(self._vacated)[:SCAN]:
            queues, keys = [queue for queue, _ in vacated], [key for _, key in vacated]
            await self._link.run("inbox", "release_heads", queues, keys, deadline=deadline)
            for key in vacated:
                del self._vacated[key]

    async def _run(
        self, starts: list[Position], vacated: list[Key], scan: int, take: int, suspects: bool, rescan: bool
    ) -> list[asyncpg.Record]:
        lanes = self.floor.lanes
        return await self._ask(
            "claim_guarded",
            [lane.queue for lane in lanes], [lane.priority for lane in lanes], [lane.bucket for lane in lanes],
            [at for at, _ in starts], [seq for _, seq in starts],
            [queue for queue, _ in vacated], [key for _, key in vacated], scan, take, suspects,
            self._known.kinds, self._known.spread, self._worker, self._lease, rescan,
        )  # fmt: skip

    def _ends(self, rows: list[asyncpg.Record], full: bool) -> list[Position | None]:
        """Where each lane's scan stopped: never beyond a candidate that was left."""
        head = rows[0]
        ends: list[Position | None] = [(head[AT], 0)] * len(self.floor.lanes)
        if full:
            last = head[END_LANE]
            ends[last - 1] = (head[END_AT], head[END_SEQ])
            ends[last:] = [None] * (len(ends) - last)
        for row in rows:
            if row[LANE]:
                place, end = (row[AVAILABLE_AT], row[SEQ]), ends[row[LANE] - 1]
                ends[row[LANE] - 1] = place if end is None else min(end, place)
        return ends


def _lanes(queues: Sequence[str], shares: dict[str, Sequence[int]]) -> list[Lane]:
    """Ordered lanes first: the statement scans them first."""
    ordered = [Lane(queue, priority) for priority in range(4) for queue in queues]
    owned = [
        Lane(queue, priority, bucket) for priority in range(4) for queue in queues for bucket in shares.get(queue, ())
    ]
    return ordered + owned
