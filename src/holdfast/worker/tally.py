"""What a worker has done, counted; published through the ledger and the workers table."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..inbox.ending import Report
from ..model.job import Claim
from .leases.ledger import Ledger


@dataclass(slots=True)
class Tally:
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

    def add(self, report: Report[Claim]) -> None:
        self.completed += report.completed
        self.failed += report.failed
        self.cancelled += report.cancelled
        self.retried += report.retried
        self.dead += len(report.dead)
        self.snoozed += report.snoozed
        self.handed_back += report.handed_back
        self.late_completions += report.late

    def publish(self, ledger: Ledger) -> None:
        for entry in fields(self):
            ledger.count(entry.name, getattr(self, entry.name))
