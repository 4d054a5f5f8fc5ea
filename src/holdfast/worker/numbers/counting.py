"""Counts what attempts do, by queue and kind. It hears every job, so it does as little as it can for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ...model.flow import AnyOutcome, FlowEnd, Parked
from ...model.job import Claim
from ...model.numbers import OTHER, Attempts
from ...model.occurrences import Outage, Part, Subscriber
from ...model.outcome import AttemptFailed, Completed, Ended, HandedBack, Lost, Snoozed
from ...model.report import Report
from .board import PAIRS, Board, Pair

NOBODY: Pair = "", ""
"""What belongs to no queue and kind."""
PUBLISH_EVERY = 0.5
"""Seconds between two writes to the board."""


class Counted:
    """What was counted of one pair."""

    __slots__ = ("attempts", "completed", "place", "runs", "started", "waits", "written")

    def __init__(self, place: int) -> None:
        self.place = place
        """On the board."""
        self.started = 0
        self.completed = 0
        self.attempts = Attempts()
        """All else; what is above and below is added when it is written."""
        self.runs: list[float] = []
        self.waits: list[float] = []
        self.written: list[int] = []

    def cut(self) -> bool:
        """Bring the histograms up to date. Has anything changed since the last time?"""
        attempts = self.attempts
        attempts.started, attempts.completed = self.started, self.completed
        counts = list(attempts.counts().values())
        changed = bool(self.runs or self.waits) or counts != self.written
        self.written = counts
        if self.runs:
            attempts.run.cut(self.runs)
            self.runs.clear()
        if self.waits:
            attempts.pickup.cut(self.waits)
            self.waits.clear()
        return changed


class Counting(Subscriber):
    def __init__(self, board: Board) -> None:
        self._board = board
        self._pairs: dict[Pair, Counted] = {}
        self._nobody = self._of(NOBODY)

    def _of(self, pair: Pair) -> Counted:
        found = self._pairs.get(pair)
        if found is None:
            full = len(self._pairs) >= PAIRS - 1 and pair != (OTHER, OTHER)
            found = self._of((OTHER, OTHER)) if full else Counted(self._board.add(pair))
            if not full:
                self._pairs[pair] = found
        return found

    def _counted(self, claim: Claim) -> Counted:
        found: Counted | None = claim.counted_in
        if found is None:  # nobody said that it was claimed
            found = claim.counted_in = self._of((claim.queue, claim.kind))
        return found

    # What happens

    def claimed(self, claims: Sequence[Claim]) -> None:
        queue = kind = None
        counted = self._nobody
        for claim in claims:
            if claim.kind != kind or claim.queue != queue:
                queue, kind = claim.queue, claim.kind
                counted = self._of((queue, kind))
            claim.counted_in = counted
            counted.waits.append(claim.waited)

    def started(self, claim: Claim) -> None:
        (claim.counted_in or self._counted(claim)).started += 1

    def ended(self, endings: Sequence[tuple[Claim, AnyOutcome]], report: Report[Claim]) -> None:
        if report.completed != len(endings):
            self._each(endings, report)
            return
        for claim, _ in endings:
            counted = claim.counted_in or self._counted(claim)
            counted.completed += 1
            if (took := claim.took) >= 0:
                counted.runs.append(took)

    def _each(self, endings: Sequence[tuple[Claim, AnyOutcome]], report: Report[Claim]) -> None:
        lost = {claim.id for claim in report.lost}
        dead = {claim.id for claim, _ in report.dead}
        stopped = {claim.id for claim in report.stopped}
        for claim, outcome in endings:
            counted = self._counted(claim)
            if claim.took >= 0:
                counted.runs.append(claim.took)
            if claim.id in lost:
                continue
            match outcome.end if isinstance(outcome, FlowEnd) else outcome:
                case Completed():
                    counted.completed += 1
                case _ if claim.id in dead:
                    counted.attempts.dead += 1
                case Ended(status=status):
                    _count(counted.attempts, status.value)
                case _ if claim.id in stopped:
                    counted.attempts.cancelled += 1
                case AttemptFailed():
                    counted.attempts.retried += 1
                case Snoozed():
                    counted.attempts.snoozed += 1
                case Parked():
                    counted.attempts.parked += 1
                case HandedBack() | Lost():
                    pass
                case never:
                    assert_never(never)

    def ending_lost(self, claim: Claim) -> None:
        self._counted(claim).attempts.fenced += 1

    def unavailable(self, outage: Outage) -> None:
        self._nobody.attempts.reconnects += outage.part in (Part.CLAIM, Part.HAND_OVER)

    # The board

    def publish(self) -> None:
        """Write to the board what has changed."""
        for counted in self._pairs.values():
            if counted.cut():
                self._board.write(counted.place, counted.attempts)


def _count(attempts: Attempts, name: str) -> None:
    setattr(attempts, name, getattr(attempts, name) + 1)
