"""Counts what a worker does; published through the ledger and the table `workers`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model.flow import AnyOutcome
from ..model.job import Claim
from ..model.occurrences import Outage, Part, Subscriber
from ..model.report import Report
from .leases.ledger import Ledger


class Counters(msgspec.Struct):
    """What the occurrences of the engine add up to; and numbers such as `ready`, which its `_publish` sets.

    Each is in `ledger.COUNTERS`, too.
    """

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
    expired: int = 0
    away: int = 0
    """Destinations of routes that cannot be reached now."""
    ring: int = 0
    """`model.ring.digest` of the members that it sees; 0: it serves no owned queue."""


class Tally(Subscriber):
    def __init__(self) -> None:
        self.counters = Counters()
        self._away: set[str] = set()

    def claimed(self, claims: Sequence[Claim]) -> None:
        self.counters.claimed += len(claims)

    def started(self, claim: Claim) -> None:
        self.counters.started += 1

    def timed_out(self, claim: Claim) -> None:
        self.counters.timeouts += 1

    def ended(self, endings: Sequence[tuple[Claim, AnyOutcome]], report: Report[Claim]) -> None:
        counters = self.counters
        counters.completed += report.completed
        counters.failed += report.failed
        counters.cancelled += report.cancelled
        counters.expired += len(report.expired)
        counters.retried += report.retried
        counters.dead += len(report.dead)
        counters.snoozed += report.snoozed
        counters.handed_back += report.handed_back
        counters.late_completions += report.late

    def ending_lost(self, claim: Claim) -> None:
        self.counters.lease_lost += 1

    def unavailable(self, outage: Outage) -> None:
        self.counters.reconnects += outage.part in (Part.CLAIM, Part.HAND_OVER)

    def destination_reached(self, route: str, reached: bool) -> None:
        (self._away.discard if reached else self._away.add)(route)
        self.counters.away = len(self._away)

    def publish(self, ledger: Ledger) -> None:
        for name in self.counters.__struct_fields__:
            ledger.count(name, getattr(self.counters, name))
