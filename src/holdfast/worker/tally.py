"""Counts what a worker does; published through the ledger and the table `workers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ..model.job import Claim
from ..model.occurrences import Outage, Part, Subscriber
from ..model.outcome import Outcome
from ..model.report import Report
from .leases.ledger import Ledger


@dataclass(slots=True)
class Counters:
    claimed: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    snoozed: int = 0
    handed_back: int = 0
    lease_lost: int = 0
    late_completions: int = 0
    timeouts: int = 0
    cancelled: int = 0
    rescans: int = 0
    reconnects: int = 0
    running: int = 0
    ready: int = 0


class Tally(Subscriber):
    def __init__(self) -> None:
        self.counters = Counters()

    def claimed(self, claims: Sequence[Claim]) -> None:
        self.counters.claimed += len(claims)

    def started(self, claim: Claim) -> None:
        self.counters.started += 1

    def timed_out(self, claim: Claim) -> None:
        self.counters.timeouts += 1

    def ended(self, endings: Sequence[tuple[Claim, Outcome]], report: Report[Claim]) -> None:
        counters = self.counters
        counters.completed += report.completed
        counters.failed += report.failed
        counters.cancelled += report.cancelled
        counters.retried += report.retried
        counters.dead += len(report.dead)
        counters.snoozed += report.snoozed
        counters.handed_back += report.handed_back
        counters.late_completions += report.late

    def ending_lost(self, claim: Claim) -> None:
        self.counters.lease_lost += 1

    def unavailable(self, outage: Outage) -> None:
        self.counters.reconnects += outage.part in (Part.CLAIM, Part.HAND_OVER)

    def publish(self, ledger: Ledger) -> None:
        for entry in fields(self.counters):
            ledger.count(entry.name, getattr(self.counters, entry.name))
