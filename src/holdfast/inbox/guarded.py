"""The guarded claim: heads of ordered keys, rows of owned buckets, and suspects.

    claim        along the lanes: takes the heads that it finds, passes the rows that wait behind them
    hand_over    through the keys whose row has just ended here: takes the rows that were passed, in order
    patrol       from the very start, every few seconds: takes what the others missed, blocks what still waits

A passed row is older than all rows ahead of the floor, so a key that is handed over overtakes no other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter

import asyncpg

from ..db.link import Link
from ..errors import Contended
from ..model.floor import END, Floor, Lane
from ..model.job import Claim
from .about import About, about
from .claim import Batch, Course, Known

KEYS, KEYS_LEAST = 500, 10
"""Most keys per claim: each needs an advisory lock, and the whole server shares the memory for these."""
LOOK_LEAST, LOOK_MOST = 50, 2000
"""Rows to look at per claim: more if many of them are not the heads of their keys."""
REMEMBERED = 20_000
"""Most keys for which it is remembered that rows were passed; the patrol finds the rows of others."""
STRIDE = 17
PATROL_EVERY = 8.0
PATROL_CHUNK = 500
SLOW = 0.02
"""Seconds: a query that took longer is not repeated until the next patrol."""

CLAIM, PLACE, ABOUT = slice(16), slice(16, 18), 18
"""Columns: the fields of a `Claim`, its place in the order, and in the first row an `About`."""

Key = tuple[str, str]
"""(queue, key)"""


class GuardedCourse(Course):
    def __init__(self, link: Link, worker: str, queues: Sequence[str], known: Known, lease: float) -> None:
        lanes = [Lane(queue, priority, owned) for owned in (False, True) for priority in range(4) for queue in queues]
        super().__init__(link, lanes)  # ordered lanes first: the statement scans them first
        self._worker = worker
        self._known = known
        self._lease = lease
        self._shares: dict[str, Sequence[int]] = {}
        self._turn = 0
        self._keys = KEYS
        self._density = 1.0
        """Recent average share of claimed rows among those looked at and not left."""
        self._vacated: dict[Key, None] = {}
        self.locked_out = False
        """Did others have all keys of the last hand-over locked?"""
        self._fallen: set[Key] = set()
        """Keys that were vacated since the last claim was sent."""
        self._passed: dict[Key, None] = {}
        """Keys of which this floor has passed rows, the latest last."""
        self._ask_blocked_at = 0.0
        """When to ask again whether anything is blocked; later if that was slow."""
        self._patrol = Floor(self.floor.lanes)
        self._patrolling = False
        self._patrol_at = time.monotonic() + PATROL_EVERY

    def vacate(self, claim: Claim) -> None:
        """Note that this row has ended here: its key may have a new head."""
        self._vacated[claim.queue, claim.key] = None
        self._fallen.add((claim.queue, claim.key))

    @property
    def vacated(self) -> int:
        """How many keys wait to be handed over."""
        return len(self._vacated)

    def own(self, shares: Mapping[str, Sequence[int]]) -> None:
        """Set the buckets that this worker owns from now on, by queue."""
        if shares != self._shares:
            self._shares = dict(shares)
            for floor in (self.floor, self._patrol):
                floor.forget(lane for lane in floor.lanes if lane.owned)
            self._rescan_at = 0.0

    async def claim(self, limit: int) -> Batch:
        """Claim up to `limit` rows along the lanes."""
        if self._patrolling or time.monotonic() >= self._patrol_at:
            batch = await self._walk_patrol(limit)
            if batch.claims:
                return batch
        return await self._look_around(limit)

    async def _look(self, limit: int) -> tuple[Batch, bool]:
        rescan = self._rescan_due()
        keys = min(limit, self._keys)
        look = int(min(max(keys / max(self._density, 0.01), LOOK_LEAST), LOOK_MOST))
        began = time.monotonic()
        self._turn += 1
        self._fallen.clear()
        told, claims = await self._run(self.floor, [], look, keys, limit, rescan=rescan)
        full = told.found >= look
        self._note_passed(told)
        ends = told.ends(len(self.floor.lanes))
        behind = self._settle(told, ends, began, rescan, idle=not claims and not full)
        if full or len(claims) >= limit:
            self.floor.rotate()
        decided = told.found - told.left
        if decided > 0 and (claims or full):  # a look full of rows behind their heads makes the next one longer
            self._density += (len(claims) / decided - self._density) * 0.3
        return Batch(claims, more=not claims and (full or self._patrolling), full=full or len(claims) >= limit), behind

    async def hand_over(self, link: Link, limit: int) -> list[Claim]:
        """Claim up to `limit` rows of the vacated keys. The next rows of the others become claimable by everyone."""
        self.locked_out = False
        with self._taking_vacated() as vacated:
            vacated = await self._worth_a_look(vacated, link)
            if not vacated:
                return []
            told, claims = await self._run(self.floor, vacated, 0, 0, limit, link=link)
        self._vacated.update((vacated[position - 1], None) for position in told.busy)
        self.locked_out = len(told.busy) == len(vacated)
        for key in told.empty:
            self._passed.pop((key.queue, key.key), None)
        return claims

    async def give_away(self, link: Link) -> None:
        """Make the next rows of the vacated keys claimable by everyone, also by workers that have passed them."""
        with self._taking_vacated() as vacated:
            if vacated:
                told, _ = await self._run(self.floor, vacated, 0, 0, 0, passed=True, link=link)
                self._vacated.update((vacated[position - 1], None) for position in told.busy)

    async def _worth_a_look(self, vacated: list[Key], link: Link) -> list[Key]:
        """The keys to hand over: if nothing is blocked, only those with passed rows. Other rows are still ahead."""
        passed = [key for key in vacated if key in self._passed]
        if 2 * len(passed) > len(vacated) or time.monotonic() < self._ask_blocked_at:
            return vacated
        began = time.monotonic()
        blocked = await link.run("inbox", "blocked", list({queue for queue, _ in vacated}))
        if time.monotonic() - began > SLOW:  # it walks dead entries; a key by itself has fewer
            self._ask_blocked_at = time.monotonic() + PATROL_EVERY
        return vacated if blocked else passed

    def _note_passed(self, told: About) -> None:
        for key in ((each.queue, each.key) for each in told.passed):
            self._passed[key] = None
            if key in self._fallen:
                # It was vacated during this claim, which may have looked before that.
                self._vacated[key] = None
        while len(self._passed) > REMEMBERED:
            del self._passed[next(iter(self._passed))]

    async def claim_suspect(self) -> Claim | None:
        """Claim one suspect."""
        _, claims = await self._run(self.floor, [], 1, 1, 1, suspects=True, block=True)
        return claims[0] if claims else None

    async def suspect_waits(self) -> bool:
        """Is there a suspect that may run now?"""
        told, _ = await self._run(self.floor, [], 1, 1, 0, suspects=True, block=True)
        return told.left > 0

    async def _walk_patrol(self, limit: int) -> Batch:
        """Walk one chunk behind the floor."""
        if not self._patrolling:
            self._patrolling = True
            self._patrol.reset()
        told, claims = await self._run(self._patrol, [], PATROL_CHUNK, self._keys, limit, block=True)
        self._note_passed(told)
        full = told.found >= PATROL_CHUNK
        self._patrol.claimed(told.at, told.ends(len(self._patrol.lanes)), told.paused)
        behind = any(self._patrol.hint(lane) < self.floor.hint(lane) for lane in self.floor.lanes)
        if not full or not behind:
            self._patrolling = False
            self._patrol_at = time.monotonic() + PATROL_EVERY
        return Batch(claims)

    @contextmanager
    def _taking_vacated(self) -> Iterator[list[Key]]:
        """Take the vacated keys out before the query: one that is vacated again during it must be asked about again."""
        taken = list(self._vacated)[: self._keys]
        for key in taken:
            del self._vacated[key]
        try:
            yield taken
        except BaseException:
            self._vacated.update(dict.fromkeys(taken))
            raise

    async def _run(
        self,
        floor: Floor,
        vacated: list[Key],
        look: int,
        keys: int,
        take: int,
        *,
        suspects: bool = False,
        block: bool = False,
        rescan: bool = False,
        passed: bool = False,
        link: Link | None = None,
    ) -> tuple[About, list[Claim]]:
        """Claim along the lanes of this floor; `passed`: other workers may have passed any row."""
        lanes, starts = floor.lanes, floor.starts(rescan)
        hints = [END if passed else self.floor.hint(lane) for lane in lanes]
        ask = partial(
            self._ask, "claim_guarded",
            [lane.queue for lane in lanes], [lane.priority for lane in lanes], [lane.owned for lane in lanes],
            [at for at, _ in starts], [seq for _, seq in starts],
            [at for at, _ in hints], [seq for _, seq in hints], *self._own_buckets(),
            [queue for queue, _ in vacated], [key for _, key in vacated],
            [passed or key in self._passed for key in vacated],
            look, keys, take, suspects, block,
            self._known.kinds, self._known.spread, self._worker, self._lease, rescan, link=link,
        )  # fmt: skip
        try:
            rows = await ask()
        except Contended:  # most likely the lock table is full
            self._keys = max(self._keys // 2, KEYS_LEAST)
            raise
        self._keys = min(self._keys + 1, KEYS)
        return about(rows[0][ABOUT]), claims_of(self._worker, rows[1:])

    def _own_buckets(self) -> tuple[list[str], list[int]]:
        """Our buckets, starting with another one each time: a full batch may not reach the last."""
        queues: list[str] = []
        buckets: list[int] = []
        for queue, share in self._shares.items():
            first = self._turn * STRIDE % max(len(share), 1)
            queues += [queue] * len(share)
            buckets += [*share[first:], *share[:first]]
        return queues, buckets


def claims_of(worker: str, rows: list[asyncpg.Record]) -> list[Claim]:
    """The claims, oldest first, across all keys."""
    rows.sort(key=itemgetter(PLACE))
    return [Claim(worker, *row[CLAIM]) for row in rows]
