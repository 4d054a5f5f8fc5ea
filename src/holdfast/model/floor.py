"""The claim floor: where the next claim's index scan begins, and the proof that no row stays behind it.

A claim that starts at the left edge of its index walks every dead entry that a pinned xmin horizon keeps. So each
lane (queue, priority) remembers where its last claim ended, its *hint*. But rows appear behind the hint all the time:
every transaction that enqueues, and commits after a later one was claimed. Hence a second mark, *safe*: no row that is
still invisible can appear before it.

    enqueue writes available_at >= the time at which its transaction drew its xid (less a small race, SLACK).
    A rescan at time t sees a snapshot: every xid below its xmax was drawn before t.
    Once all xids below that xmax have ended, whatever appears later was enqueued after t: t - SLACK is safe.

A rescan starts at the lower of hint and the *previous* rescan's safe, so it meets every row that became visible in
between. A transaction that stays open would hold safe back; after ASIDE it is set aside with the time before which it
cannot have enqueued, and when it ends its lanes are scanned again from there.

What this cannot see (rows back-dated by hand, rows that were locked when the scan passed and came back unclaimed) the
patrol finds, which walks each lane from its very start in chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

Position = tuple[datetime, int]
"""(available_at, seq): the claim's order, and the order of its index."""

START: Position = (datetime(1, 1, 1, tzinfo=UTC), 0)
"""Before every row: the driver sends this time as -infinity."""
SLACK = timedelta(milliseconds=50)
ASIDE = timedelta(milliseconds=200)


@dataclass(frozen=True, slots=True)
class Lane:
    """One bounded index scan."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`pg_current_snapshot()`: xids below xmin have ended, those in `running` have not, xmax is the next one."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))


@dataclass(slots=True)
class _Open:
    """A transaction that was running when we looked."""

    bound: datetime
    """It cannot have enqueued before this."""
    seen_at: datetime
    aside: bool = False


@dataclass(slots=True)
class _Marks:
    hint: Position = START
    safe: Position = START


class Floor:
    """The marks of one worker. Pure: times come from the database, with each claim."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self.lanes: Sequence[Lane] = tuple(lanes)
        self._marks = {lane: _Marks() for lane in self.lanes}
        self._open: dict[int, _Open] = {}
        self._seen: list[tuple[datetime, int]] = []
        self._last = START[0]

    def starts(self, rescan: bool) -> list[Position]:
        """Where each lane's next scan begins."""
        marks = (self._marks[lane] for lane in self.lanes)
        return [min(m.hint, m.safe) if rescan else m.hint for m in marks]

    def reset(self) -> None:
        """Everything from the very start: after a start, a reconnect, a clock that went back."""
        self._open.clear()
        self._seen.clear()
        self._last = START[0]
        for marks in self._marks.values():
            marks.hint = marks.safe = START

    def claimed(
        self, at: datetime, ends: Sequence[Position | None], paused: Iterable[str], elapsed: float = 0.0
    ) -> bool:
        """Move the hints after a claim at time `at`.

        `ends` holds per lane where its scan stopped: at the last row it took when the batch was full, at
        (`at`, 0) when it ran out of due rows, None when it was not reached. `elapsed` seconds at least have passed
        since the last claim, by a clock that is never set.

        False when the database's clock went back: this scan began too late, so it moves nothing; all starts anew.
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
        self, at: datetime, snapshot: Snapshot, ends: Sequence[Position | None], paused: Iterable[str]
    ) -> bool:
        """Move *safe* after a rescan, for the lanes that it reached. True when a lane should be scanned again now."""
        ended = self._update_open(at, snapshot)
        self._seen.append((at, snapshot.xmax))
        safe = (self._safe_time(snapshot), 0)
        resting = frozenset(paused)
        for lane, end in zip(self.lanes, ends, strict=True):
            marks = self._marks[lane]
            if end is not None and lane.queue not in resting:
                marks.safe = safe
            if ended is not None:
                marks.safe = min(marks.safe, (ended, 0))
        return ended is not None

    def lower(self, lane: Lane, position: Position) -> None:
        """Something runnable was found behind the hint."""
        marks = self._marks[lane]
        marks.hint = min(marks.hint, position)

    def hint(self, lane: Lane) -> Position:
        return self._marks[lane].hint

    def _update_open(self, at: datetime, snapshot: Snapshot) -> datetime | None:
        """Note new transactions, set old ones aside; the earliest bound of those set aside that have ended."""
        for xid in snapshot.running - self._open.keys():
            self._open[xid] = _Open(self._bound(xid), at)
        ended: datetime | None = None
        for xid in self._open.keys() - snapshot.running:
            gone = self._open.pop(xid)
            if gone.aside:
                ended = gone.bound if ended is None else min(ended, gone.bound)
        for transaction in self._open.values():
            transaction.aside = transaction.aside or at - transaction.seen_at >= ASIDE
        return ended

    def _bound(self, xid: int) -> datetime:
        times = [at for at, xmax in self._seen if xmax <= xid]
        return max(times) - SLACK if times else START[0]

    def _safe_time(self, snapshot: Snapshot) -> datetime:
        counted = [xid for xid, transaction in self._open.items() if not transaction.aside]
        oldest = min(counted, default=snapshot.xmax)
        before = [(at, xmax) for at, xmax in self._seen if xmax <= oldest]
        if not before:
            return START[0]
        newest = max(before)
        self._seen = [seen for seen in self._seen if seen >= newest]
        return newest[0] - SLACK
