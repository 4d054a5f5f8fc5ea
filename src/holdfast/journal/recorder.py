"""The recorder: a subscriber that turns occurrences into notes."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from ..errors import Unreachable
from ..model.job import Hold, Holding
from ..model.occurrences import Outage, Part, Subscriber, Swept
from ..model.report import Report
from .notes import Note, Notes

MOST_TEXT = 200
"""Characters of an error that are noted."""


class Recorder(Subscriber):
    """Of one process with its workers: a supervisor, or an application with an embedded worker."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._place = f"{socket.gethostname()[:60]}-{os.getpid()}"
        self._workers: set[str] = set()
        self._outages = _Outages()

    def _note(self, what: str, subject: str, details: dict[str, Any], count: int = 1, shared: bool = False) -> None:
        self._notes.add(Note(what, subject, self._notes.clock(), None, count, details, shared))

    # Workers

    def worker_started(self, worker: str, queues: Sequence[str], concurrency: int, isolation: bool) -> None:
        self._workers.add(worker)
        self._note("worker.started", worker, {"queues": list(queues)[:20], "concurrency": concurrency})

    def worker_stopped(self, worker: str, completed: int) -> None:
        self._workers.discard(worker)
        self._note("worker.drained", worker, {})

    def worker_failed(self, worker: str, error: BaseException) -> None:
        self._note("worker.failed", worker, {"error": _in_short(error)})

    def process_ready(self, pid: int, worker: str, isolation: bool) -> None:
        self._workers.add(worker)
        if not isolation:  # these come and go with the suspects
            self._note("worker.started", worker, {})

    def process_ended(self, pid: int, worker: str, isolation: bool) -> None:
        self._workers.discard(worker)
        if worker and not isolation:
            self._note("worker.drained", worker, {})

    def process_died(self, pid: int, worker: str, how: str, started: int, held: int) -> None:
        self._workers.discard(worker)
        subject = worker or f"{self._place}, process {pid}"
        self._note("worker.died", subject, {"how": how, "held": held, "running": started})

    def recovered(self, worker: str, report: Report[Hold]) -> None:
        if found := report.retried + len(report.dead) + report.cancelled:
            became = {"retried": report.retried, "dead": len(report.dead), "ended": report.cancelled}
            self._note("jobs.recovered", worker, _some(became), found)

    def overdue(self, held: Holding, pid: int | None) -> None:
        self._note("handler.overdue", str(held.id), {"worker": held.worker, "killed": pid is not None})

    # Leases

    def lease_lost(self, held: Holding) -> None:
        self._note("leases.lost", held.worker, {}, shared=True)

    def absent(self, worker: str) -> None:
        self._note("worker.absent", worker, {})

    def present(self, worker: str) -> None:
        self._note("worker.present", worker, {})

    # Housekeeping

    def swept(self, rows: Sequence[Swept]) -> None:
        by_worker: dict[str, Counter[str]] = defaultdict(Counter)
        for row in rows:
            became = {"pending": "retried", "dead_letter": "dead"}.get(row.status, "ended")
            by_worker[row.worker or ""][became] += 1
        for worker, became_of in by_worker.items():
            self._note("jobs.swept", worker, dict(became_of), became_of.total(), shared=True)

    def called_dead(self, worker: str, silence: float) -> None:
        self._note("worker.called_dead", worker, {"silence": silence})

    def schedule_missed(self, schedule: str, slots: int) -> None:
        self._note("schedule.missed", schedule, {}, slots, shared=True)

    # The server

    def unavailable(self, outage: Outage) -> None:
        if isinstance(outage.error, Unreachable) and (not outage.error.cut_off or outage.error.silent):
            self._outages.failed(outage.part, self._notes.clock())

    def available(self, part: Part, failures: int, seconds: float) -> None:
        over = self._outages.answered(part, self._notes.clock())
        if over is not None:
            since, until = over
            seen = max(1, len(self._workers))
            self._notes.add(Note("database.away", self._place, since, until, seen))


class _Outages:
    """One outage of all parts of a process: from the first call that failed to the first one that was answered.

    One failed call is none: a connection that was lost is noticed by its next call, perhaps long after the server is
    back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[Part, float] = {}
        """When the first of the failures in a row was."""
        self._away: set[Part] = set()
        self._since = 0.0
        self._back: float | None = None

    def failed(self, part: Part, now: float) -> None:
        with self._lock:
            first = self._failed.setdefault(part, now)
            if first == now or part in self._away:
                return
            self._since = min(self._since, first) if self._away else first
            self._away.add(part)
            self._back = None

    def answered(self, part: Part, now: float) -> tuple[float, float] | None:
        """Return the beginning and the end of an outage, if no part misses the server any more."""
        with self._lock:
            self._failed.pop(part, None)
            if part not in self._away:
                return None
            self._away.discard(part)
            self._back = self._back or now
            return None if self._away else (self._since, self._back)


def _some(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:MOST_TEXT]
