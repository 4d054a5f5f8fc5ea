"""Claim: take due rows from the floor on, and keep the floor's promise by rescans and patrols."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import msgspec

from ..db.link import Link
from ..model.floor import START, Floor, Lane, Position, Snapshot
from ..model.job import Claim
from ..probes import probe

RESCAN_MIN, RESCAN_MAX = 0.05, 0.2
"""Seconds between rescans; twenty times as long as a rescan takes, within these."""
PATROL_EVERY = 30.0
PATROL_CHUNK = 2000


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


@dataclass(frozen=True, slots=True)
class Batch:
    claims: list[Claim]
    suspects: bool | None
    """Do rows wait whose last attempt took its process down? Known after a rescan only."""


class Claimer:
    """The one claimer of a worker process."""

    def __init__(self, link: Link, worker: str, queues: Sequence[str], known: Known, lease: float) -> None:
        self._link = link
        self._worker = worker
        self._queues = list(queues)
        self._known = known
        self._lease = lease
        lanes = [Lane(queue, priority) for priority in range(4) for queue in queues]
        self.floor = Floor(lanes)
        self._lane_queues = [lane.queue for lane in lanes]
        self._lane_priorities = [lane.priority for lane in lanes]
        self._session = 0
        self._answered_at = time.monotonic()
        self._rescan_at = 0.0
        self._patrol = _Patrol(self.floor)
        self.rescans = 0
        self.rescanning = True
        """Switched off by the test that proves the rescan necessary."""

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` due rows."""
        if limit < 1:
            return Batch([], None)
        await self._walk_patrol()
        rescan = self.rescanning and time.monotonic() >= self._rescan_at
        starts = self.floor.starts(rescan)
        began = time.monotonic()
        elapsed = began - self._answered_at
        probe("claim.before")
        rows = await self._link.run(
            "inbox", "claim",
            self._lane_queues, self._lane_priorities, [at for at, _ in starts], [seq for _, seq in starts],
            limit, self._known.kinds, self._known.spread, self._worker, self._lease, rescan,
        )  # fmt: skip
        probe("claim.after")
        self._answered_at = time.monotonic()
        claims = [Claim(*row[8:]) for row in rows] if rows[0][5] is not None else []
        if self._reconnected():
            again = True
        else:
            again = self._move_floor(rows, full=len(claims) >= limit, rescan=rescan, elapsed=elapsed)
        if rescan:
            self.rescans += 1
        if again or not claims:
            # With nothing to do every look is a rescan: what commits just behind the last one is not kept waiting.
            self._rescan_at = 0.0
        elif rescan:
            pause = min(max((self._answered_at - began) * 20, RESCAN_MIN), RESCAN_MAX)
            self._rescan_at = self._answered_at + pause
        return Batch(claims, rows[0][3])

    async def claim_suspect(self) -> Claim | None:
        """Claim one row that is to run alone."""
        rows = await self._link.run(
            "inbox",
            "claim_suspect",
            self._queues,
            self._known.kinds,
            self._known.spread,
            self._worker,
            self._lease,
        )
        probe("claim.after")
        return Claim(*rows[0]) if rows else None

    def _reconnected(self) -> bool:
        """Did this claim run in a new session, perhaps on another server? Then the floor it began from meant nothing.

        Known only afterwards: a broken link connects again within the call.
        """
        before, self._session = self._session, self._link.connects
        if before in (0, self._session):
            return False
        self.floor.reset()
        return True

    def _move_floor(self, rows: list[asyncpg.Record], full: bool, rescan: bool, elapsed: float) -> bool:
        """True when everything is to be scanned again at once."""
        at, paused, snapshot, _, running = rows[0][:5]
        paused = paused or ()
        ends: list[Position | None] = [(at, 0)] * len(self.floor.lanes)
        if full:
            last = max(row[5] for row in rows)
            ends[last - 1] = max((row[6], row[7]) for row in rows if row[5] == last)
            ends[last:] = [None] * (len(ends) - last)
        if not self.floor.claimed(at, ends, paused, elapsed):
            return True
        return rescan and self.floor.observed(at, Snapshot.parse(snapshot), running or (), ends, paused)

    async def _walk_patrol(self) -> None:
        """Walk the lanes whose turn it is, one long chunk at most."""
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


class _Patrol:
    """Whose turn it is to be walked from its very start: every lane once per PATROL_EVERY."""

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
