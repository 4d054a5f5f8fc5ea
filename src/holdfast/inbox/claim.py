"""Claim: take due rows from the floor on; rescans and patrols find the rows behind it.

There are two courses. The free one takes rows in the order of their index, and is as fast as Postgres allows. The
guarded one (`guarded.py`) takes ordered rows, owned rows, and suspects.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import asyncpg
import msgspec

from ..db.link import Link
from ..model.floor import START, Floor, Lane, Position, Snapshot
from ..model.job import Claim
from ..probes import probe
from .about import About, about

RESCAN_MIN, RESCAN_MAX = 0.05, 0.2
"""Seconds between rescans; twenty times as long as a rescan takes, within these."""
PATROL_EVERY = 30.0
PATROL_CHUNK = 2000

CLAIM, RANK, WAITED, ABOUT = slice(14), 14, 15, 16
"""The columns of the free claim: the fields of a `Claim`, its rank, how long it was due; in the last row an `About`."""


@dataclass(frozen=True, slots=True)
class Known:
    """What this worker can run: kinds, each with its oldest and newest payload version."""

    versions: dict[str, tuple[int, int]]
    kinds: list[str] = field(init=False)
    spread: str = field(init=False)
    """JSON: the versions of those kinds that know more than version 1."""

    def __post_init__(self) -> None:
        beyond = {kind: pair for kind, pair in self.versions.items() if pair != (1, 1)}
        object.__setattr__(self, "kinds", sorted(self.versions))
        object.__setattr__(self, "spread", msgspec.json.encode(beyond).decode())


class Batch(msgspec.Struct, frozen=True):
    claims: list[Claim]
    suspects: bool | None = None
    """Do suspects wait? Known after a rescan of the free course only."""
    more: bool = False
    """Is another look worth it at once, even if nothing was claimed?"""
    full: bool = False
    """Did it see as many rows as it could? Then there may be more."""


class Course:
    """One way to claim: its lanes, their floor, and when to scan them again from further back."""

    def __init__(self, link: Link, lanes: Sequence[Lane]) -> None:
        self._link = link
        self.floor = Floor(lanes)
        self._session = 0
        self._answered_at = time.monotonic()
        self._rescan_at = 0.0
        self.rescans = 0
        self.rescanning = True
        """Switched off by the test that proves that rescans are necessary."""

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` due rows."""
        raise NotImplementedError

    async def _look_around(self, limit: int) -> Batch:
        """Look; if that found nothing and shows that rows may lie behind where it began, look there, too.

        Otherwise the worker would sleep first. Twice at most: long transactions that end all the time, elsewhere in
        this database, must not keep an idle worker busy.
        """
        batch, behind = await self._look(limit)
        if behind and not batch.claims:
            batch, _ = await self._look(limit)
        return batch

    async def _look(self, limit: int) -> tuple[Batch, bool]:
        """One look along the lanes, and whether rows may lie behind where it began."""
        raise NotImplementedError

    def _rescan_due(self) -> bool:
        return self.rescanning and time.monotonic() >= self._rescan_at

    async def _ask(self, statement: str, *arguments: object, link: Link | None = None) -> list[asyncpg.Record]:
        probe("claim.before")
        rows = await (link or self._link).run("inbox", statement, *arguments)
        probe("claim.after")
        return rows

    def _settle(self, told: About, ends: list[Position | None], began: float, rescan: bool, idle: bool) -> bool:
        """Move the floor after a claim, and note when the next rescan is due. True: rows may lie behind the claim."""
        elapsed = began - self._answered_at
        self._answered_at = time.monotonic()
        again = self._reconnected() or self._move_floor(told, ends, rescan, elapsed)
        self.rescans += rescan
        if again or idle:
            # With nothing to do, every look is a rescan: a row that commits just behind the last one must not wait.
            self._rescan_at = 0.0
        elif rescan:
            pause = min(max((self._answered_at - began) * 20, RESCAN_MIN), RESCAN_MAX)
            self._rescan_at = self._answered_at + pause
        return again

    def _reconnected(self) -> bool:
        """Did this claim run in a new session, perhaps on another server? Then its floor was not valid.

        Known only afterwards: a broken link reconnects within the call.
        """
        before, self._session = self._session, self._link.connects
        if before in (0, self._session):
            return False
        self.floor.reset()
        return True

    def _move_floor(self, told: About, ends: list[Position | None], rescan: bool, elapsed: float) -> bool:
        """Move the floor. True if everything must be scanned again at once."""
        if not self.floor.claimed(told.at, ends, told.paused, elapsed):
            return True
        if not rescan:
            return False
        assert told.snapshot is not None
        return self.floor.observed(told.at, Snapshot.parse(told.snapshot), told.running, ends, told.paused)


class FreeCourse(Course):
    """Rows without order or owner."""

    def __init__(self, link: Link, worker: str, queues: Sequence[str], known: Known, lease: float) -> None:
        lanes = [Lane(queue, priority) for priority in range(4) for queue in queues]
        super().__init__(link, lanes)
        self._worker = worker
        self._known = known
        self._lease = lease
        self._patrol = _Patrol(self.floor)
        self.looks_for_guarded = False
        self.guarded_waits = False
        """Have rows been seen that only the guarded course takes?"""
        self.owned: Sequence[str] = ()
        """The queues whose buckets have owners."""

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` due rows."""
        await self._walk_patrol()
        return await self._look_around(limit)

    async def _look(self, limit: int) -> tuple[Batch, bool]:
        rescan = self._rescan_due()
        starts = self.floor.starts(rescan)
        lanes = self.floor.lanes
        began = time.monotonic()
        rows = await self._ask(
            "claim",
            [lane.queue for lane in lanes], [lane.priority for lane in lanes],
            [at for at, _ in starts], [seq for _, seq in starts],
            limit, self._known.kinds, self._known.spread, self._worker, self._lease, rescan,
            rescan and self.looks_for_guarded,
        )  # fmt: skip
        told = about(rows.pop()[ABOUT])
        claims = claims_of(self._worker, rows)
        self.guarded_waits = self.guarded_waits or bool(told.guarded)
        self.owned = told.owned
        full = told.found >= limit
        changed = told.found > len(claims)
        # Rows that were found and not claimed may still be there: then nothing moves, and the next scan finds them.
        ends: list[Position | None] = [None] * len(lanes) if changed else told.ends(len(lanes))
        behind = self._settle(told, ends, began, rescan, idle=not claims and not changed)
        if full:
            self.floor.rotate()
        return Batch(claims, told.suspects, more=changed, full=full), behind

    async def _walk_patrol(self) -> None:
        """Walk the lanes whose turn it is, at most one full chunk."""
        while (lane := self._patrol.lane()) is not None:
            hint = self.floor.hint(lane)
            cursor = self._patrol.cursor
            rows = await self._link.run(
                "inbox", "patrol", lane.queue, lane.priority, cursor[0], cursor[1], hint[0], hint[1], PATROL_CHUNK,
                self._known.kinds, self._known.spread,
            )  # fmt: skip
            seen, end_at, end_seq, runnable_at, runnable_seq = rows[0]
            if runnable_at is not None:
                self.floor.lower(lane, (runnable_at, runnable_seq))
            more = seen >= PATROL_CHUNK
            self._patrol.walked((end_at, end_seq) if more and runnable_at is None else None)
            if more or self._patrol.resting:
                return


def claims_of(worker: str, rows: list[asyncpg.Record]) -> list[Claim]:
    """The claims in the order in which they start; the rows come in the order of their places in the table."""
    rows.sort(key=itemgetter(RANK))
    return [Claim(worker, *row[CLAIM], waited=row[WAITED]) for row in rows]  # type: ignore[misc]  # fourteen columns


class _Patrol:
    """Which lane to walk from its very start: every lane once per PATROL_EVERY."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._left: list[Lane] = []
        self._next_at = time.monotonic() + PATROL_EVERY
        self.cursor: Position = START

    def lane(self) -> Lane | None:
        if not self._left:
            if time.monotonic() < self._next_at:
                return None
            self._next_at = time.monotonic() + PATROL_EVERY
            self._left = list(self._floor.lanes)
        return self._left[-1]

    @property
    def resting(self) -> bool:
        return not self._left

    def walked(self, end: Position | None) -> None:
        """A chunk was walked up to `end`; None: this lane is done."""
        self.cursor = end or START
        if end is None:
            self._left.pop()
