"""The claim floor: where the index scan of the next claim begins, and the proof that no row stays behind it.

A claim that starts at the left edge of its index walks over every dead entry that a pinned xmin horizon keeps. So each
lane (queue, priority) remembers where its last claim ended, its *hint*. But rows appear behind the hint all the time:
those of every transaction that enqueues and then commits after a later row was claimed. So there is a second mark,
*safe*: no row that is still invisible can appear before it.

    Every statement that makes a row pending writes available_at >= the time at which its transaction got its xid (minus
    a small race, SLACK).
    Each rescan reads the snapshot that it scans with and, after that, the running xids.
    An xid is *open* from the first rescan that reads it as running until a snapshot shows that it has ended. If an xid
    is not read as running, there are two cases. It was assigned before the rescan and has ended by then, so the next
    scan sees its rows. Or it was assigned after the rescan began, and so its rows are newer, too.
    Therefore a row that appears after a rescan belongs to an open xid, or is not older than the *previous* rescan; and
    an xid that is read for the first time was assigned after the previous rescan began.

The snapshot alone is not enough: its xmax is one past the newest xid that has *ended*. A newer xid that is running is
not in it, so in a quiet database, a single transaction would not be seen until it commits.

A rescan starts at the lower of the hint and the *safe* of the previous rescan, so it finds every row that became
visible in between. A transaction that stays open would hold *safe* back. After ASIDE, it is set aside, with the time
before which it cannot have enqueued. When it ends, its lanes are scanned again from that time.

Some rows are invisible to this: rows back-dated by hand, and rows that were locked when the scan passed and came back
unclaimed. The patrol finds them: it walks each lane from its very start, in chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

import msgspec

Position = tuple[datetime, int]
"""(available_at, seq): the order of claims, and of their index."""

START: Position = (datetime(1, 1, 1, tzinfo=UTC), 0)
"""Before every row: the driver sends this time as -infinity."""
END: Position = (datetime.max.replace(tzinfo=UTC), 0)
"""After every row."""
SLACK = timedelta(milliseconds=50)
ASIDE = timedelta(milliseconds=200)


class Lane(msgspec.Struct, frozen=True):
    """One bounded index scan."""

    queue: str
    priority: int
    owned: bool = False
    """True: rows of our buckets in owned queues. False: rows without an owner."""


class Snapshot(msgspec.Struct, frozen=True):
    """`pg_current_snapshot()`: xids below xmax have ended, except those in `running`. It says nothing of others."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def ended(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.running

    def widen(self, xid: int) -> int:
        """Return the full 64-bit number of a recent xid from its lower 32 bits."""
        nearest = (self.xmax & ~_LOWER) | xid
        if nearest > self.xmax + _HALF:
            return nearest - _LOWER - 1
        return nearest + _LOWER + 1 if nearest < self.xmax - _HALF else nearest


_LOWER, _HALF = 2**32 - 1, 2**31


class _Open(msgspec.Struct):
    """A transaction that was running at a rescan."""

    bound: datetime
    """It cannot have enqueued before this time."""
    seen_at: datetime
    aside: bool = False


class _Marks(msgspec.Struct):
    hint: Position = START
    safe: Position = START


class Floor:
    """The marks of one worker. Pure: times come from the database, with each claim."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self.lanes: Sequence[Lane] = tuple(lanes)
        """In the order in which a claim scans them; lanes of the same rank are adjacent."""
        self._marks = {lane: _Marks() for lane in self.lanes}
        self._open: dict[int, _Open] = {}
        self._last = START[0]
        self._rescan = START[0]

    def starts(self, rescan: bool) -> list[Position]:
        """Return where the next scan of each lane begins."""
        marks = (self._marks[lane] for lane in self.lanes)
        return [min(m.hint, m.safe) if rescan else m.hint for m in marks]

    def rotate(self) -> None:
        """Put another queue first within each rank, because a full batch may not have reached the last one."""
        ranks = (list(lanes) for _, lanes in groupby(self.lanes, lambda lane: (lane.owned, lane.priority)))
        self.lanes = tuple(lane for lanes in ranks for lane in (*lanes[1:], lanes[0]))

    def reset(self) -> None:
        """Scan everything from the very start: after a start, a reconnect, or when the clock went back."""
        self._open.clear()
        self._last = self._rescan = START[0]
        for marks in self._marks.values():
            marks.hint = marks.safe = START

    def forget(self, lanes: Iterable[Lane]) -> None:
        """Scan these lanes from their very start, because the rows that they cover have changed."""
        for lane in lanes:
            self._marks[lane] = _Marks()

    def claimed(
        self, at: datetime, ends: Sequence[Position | None], paused: Iterable[str], elapsed: float = 0.0
    ) -> bool:
        """Move the hints after a claim at time `at`.

        `ends` says per lane where its scan stopped: at the last row that it took if the batch was full, at (`at`, 0) if
        it reached the end of the due rows, None if it was not reached. At least `elapsed` seconds have passed since the
        last claim, by a monotonic clock.

        Returns False if the database's clock went back: this scan began too late, so all marks are reset.
        """
        steady = at - self._last >= max(timedelta(seconds=elapsed) - SLACK / 2, timedelta())
        if not steady:
            self.reset()
        self._last = at
        if not steady:
            return False
        resting = frozenset(paused)
        for lane, end in zip(self.lanes, ends, strict=True):
            marks = self._marks[lane]
            if lane.queue in resting:
                marks.hint = marks.safe = START
            elif end is not None:
                marks.hint = end
        return True

    def observed(
        self,
        at: datetime,
        snapshot: Snapshot,
        running: Iterable[int],
        ends: Sequence[Position | None],
        paused: Iterable[str],
    ) -> bool:
        """Move *safe* after a rescan, for the lanes that it reached. Return True if a lane must be scanned again now.

        `running` holds the xids, or their lower halves, that were read as running after the snapshot was taken.
        """
        before, self._rescan = self._rescan, at
        bound = before - SLACK if before > START[0] else before
        ended = self._note(at, bound, snapshot, running)
        safe = (min([bound, *(xid.bound for xid in self._open.values() if not xid.aside)]), 0)
        resting = frozenset(paused)
        for lane, end in zip(self.lanes, ends, strict=True):
            marks = self._marks[lane]
            if end is not None and lane.queue not in resting:
                marks.safe = safe
            if ended is not None:
                marks.safe = min(marks.safe, (ended, 0))
        return ended is not None

    def lower(self, lane: Lane, position: Position) -> None:
        """Move the hint back: a row that can run was found behind it."""
        marks = self._marks[lane]
        marks.hint = min(marks.hint, position)

    def hint(self, lane: Lane) -> Position:
        return self._marks[lane].hint

    def _note(self, at: datetime, bound: datetime, snapshot: Snapshot, running: Iterable[int]) -> datetime | None:
        """Note new transactions, set old ones aside; return the earliest bound of those set aside that have ended."""
        ended: datetime | None = None
        for xid in [xid for xid in self._open if snapshot.ended(xid)]:
            gone = self._open.pop(xid)
            if gone.aside:
                ended = gone.bound if ended is None else min(ended, gone.bound)
        for xid in running:
            self._open.setdefault(snapshot.widen(xid), _Open(bound, at))
        for transaction in self._open.values():
            transaction.aside = transaction.aside or at - transaction.seen_at >= ASIDE
        return ended
