"""What the log says about occurrences."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import assert_never
from uuid import UUID

from ..db.database import in_one_line
from ..errors import Contended, InvalidInput, Unreachable
from ..model.flow import AnyOutcome
from ..model.job import Claim, Hold, Holding
from ..model.occurrences import Expired, Outage, Part, Subscriber, Swept, Unknown
from ..model.outcome import AttemptFailed, trim
from ..model.report import Report
from ..transports import Away
from .logs import about
from .waking.listener import PROBE_EVERY, Deaf

worker_log = logging.getLogger("holdfast.worker")
keeper_log = logging.getLogger("holdfast.keeper")
listener_log = logging.getLogger("holdfast.listener")
housekeeping_log = logging.getLogger("holdfast.housekeeping")
schedules_log = logging.getLogger("holdfast.schedules")
supervisor_log = logging.getLogger("holdfast.supervisor")
webhooks_log = logging.getLogger("holdfast.webhooks")
receiving_log = logging.getLogger("holdfast.receiving")


MOST_TEXT = 64 * 1024
"""Bytes of an error's text that are logged."""
MOST_KINDS = 10
"""Unknown kinds that one line names."""


STOPS_NOW = (
    "%s running jobs are interrupted and handed back: they run again from the start, and lose no attempt. A process "
    "that has not ended after %.0f s, because a handler blocks it, is killed; its running jobs lose an attempt"
)
SWEPT_AS = {"dead_letter": "a dead letter", "failed": "cancelled"}
"""How a swept row's status is said: an attempt that is swept fails only if its job was cancelled."""


LEASES_EVERY = 10.0
"""Seconds between two lines about leases that cannot be renewed: they say what is at stake now."""


class LogLines(Subscriber):
    def __init__(self) -> None:
        self._leases_logged = -math.inf
        self._leases_error = ""

    # A worker

    def worker_started(self, worker: str, queues: Sequence[str], concurrency: int, isolation: bool) -> None:
        if isolation:
            worker_log.info("worker %s started: an isolation process for jobs whose process died", worker)
        else:
            worker_log.info("worker %s started: queues %s, concurrency %s", worker, queues, concurrency)

    def worker_stopped(self, worker: str, completed: int) -> None:
        worker_log.info("worker %s stopped: %s completed", worker, completed)

    def worker_failed(self, worker: str, error: BaseException) -> None:
        worker_log.error("the worker cannot continue", exc_info=error)

    def lifespan_failed(self, worker: str, error: BaseException) -> None:
        worker_log.error("the lifespan of worker %s ended with an error; the worker stops", worker, exc_info=error)

    def registration_failed(self, worker: str, status: str, error: Exception) -> None:
        if status == "alive":
            worker_log.error(
                "worker %s could not register again; the next heartbeat retries it", worker, exc_info=error
            )
        else:
            worker_log.warning("worker %s could not be marked as %s in the registry: %s", worker, status, error)

    def kinds_unknown(self, waiting: Sequence[Unknown]) -> None:
        shown = ", ".join(_unknown(each) for each in waiting[:MOST_KINDS])
        more = f" and {len(waiting) - MOST_KINDS} more" if len(waiting) > MOST_KINDS else ""
        worker_log.warning(
            "jobs are waiting that no live worker can run: %s%s. They stay pending and lose no attempt. Import the "
            "modules that have these tasks (--import shop.tasks, or Holdfast(imports=['shop.tasks'])), or start a "
            "worker of the application that declared them",
            shown, more,
        )  # fmt: skip

    # Attempts

    def not_started(self, claim: Claim, error: Exception, delay: float) -> None:
        worker_log.error("%s %s could not start: %s; it will be retried in %g s", claim.kind, claim.id, error, delay)

    def start_overdue(self, claims: Sequence[Claim], seconds: float) -> None:
        worker_log.info("handing back %s rows that could not start within %s s", len(claims), seconds)

    def overdue(self, held: Holding, pid: int | None) -> None:
        if pid is None:
            worker_log.error("job %s has exceeded its timeout and has not stopped; its lease will expire", held.id)
        else:
            supervisor_log.error(
                "job %s has exceeded its timeout and has not stopped; killing process %s", held.id, pid
            )

    def failed(self, claim: Claim, failure: AttemptFailed) -> None:
        with about(claim):
            worker_log.warning(
                "%s %s attempt %s of %s failed: %s",
                claim.kind, claim.id, claim.attempt, claim.max_attempts, _in_short(failure.last_error()),
                exc_info=_raised(failure),
            )  # fmt: skip

    def ended(self, endings: Sequence[tuple[Claim, AnyOutcome]], report: Report[Claim]) -> None:
        if report.expired:
            _log_expired(worker_log, report.expired)
        if not report.dead:
            return
        outcomes = {claim.id: outcome for claim, outcome in endings}
        for claim, error in report.dead:
            failure = outcomes.get(claim.id)
            with about(claim):
                worker_log.error(
                    "%s %s is a dead letter after attempt %s: %s",
                    claim.kind, claim.id, claim.attempt, _in_short(error),
                    exc_info=_raised(failure) if isinstance(failure, AttemptFailed) else None,
                )  # fmt: skip

    def loop_blocked(self, claim: Claim, seconds: float) -> None:
        with about(claim):
            worker_log.warning(
                "%s %s blocked the event loop for %.1f s: nothing else ran in this worker; use "
                "asyncio.to_thread, or make the handler a plain function, which runs in a thread",
                claim.kind, claim.id, seconds,
            )  # fmt: skip

    def ending_lost(self, claim: Claim) -> None:
        worker_log.warning(
            "LeaseLost: %s %s generation %s; its ending was not written", claim.kind, claim.id, claim.generation
        )

    def ending_rejected(self, claim: Claim, error: Exception) -> None:
        worker_log.error("the server rejected the ending of %s; its job will run again", claim.id, exc_info=error)

    def endings_unwritten(self, endings: int) -> None:
        worker_log.warning(
            "%s endings could not be written before the worker stopped; their leases will expire", endings
        )

    def handlers_left(self, handlers: int) -> None:
        worker_log.warning(
            "%s handlers did not stop when asked; their jobs will run again, at the latest when their leases expire",
            handlers,
        )

    def handler_process_failed(self, error: Exception) -> None:
        worker_log.warning("process=True: %s; trying again", error)

    # Leases

    def lease_lost(self, held: Holding) -> None:
        keeper_log.warning("worker %s lost the lease of %s, generation %s", held.worker, held.id, held.generation)

    def recalled(self, worker: str, rows: int, stopped: bool) -> None:
        why = "stopped" if stopped else "blocked by a handler"
        keeper_log.warning(
            "worker %s is not running: its process is %s; handed back %s jobs that it had not started",
            worker, why, rows,
        )  # fmt: skip

    def unanswered(self, worker: str, rows: int) -> None:
        worker_log.warning("worker %s: handed back %s jobs of a claim whose answer was lost", worker, rows)

    def absent(self, worker: str) -> None:
        keeper_log.warning(
            "worker %s does not count as live until it runs again; other workers take over its buckets", worker
        )

    def present(self, worker: str) -> None:
        keeper_log.info("worker %s is running again, and counts as live", worker)

    def unregistered(self, worker: str) -> None:
        keeper_log.warning("worker %s is not in the registry; registering again", worker)

    # The server

    def unavailable(self, outage: Outage) -> None:
        error, first = outage.error, outage.failures == 1
        expected = isinstance(error, (Unreachable, Contended))
        match outage.part:
            case Part.START:
                if first or outage.failures == 10 or outage.failures % 60 == 0:
                    worker_log.warning("%s; trying again", error)
            case Part.CLAIM | Part.HAND_OVER if not expected:
                worker_log.error("the claim failed; trying again", exc_info=error)
            case Part.CLAIM | Part.HAND_OVER:
                if first:
                    worker_log.warning("claim: %s; trying again", error)
            case Part.ENDINGS:
                if first:
                    worker_log.warning("%s endings could not be written: %s; trying again", outage.rows, error)
            case Part.TRANSACTIONS:
                if first:
                    worker_log.warning(
                        "handlers cannot start a transaction: %s; handing their jobs back until they can",
                        in_one_line(error),
                    )
            case Part.LEASES:
                new = str(error) != self._leases_error or time.monotonic() - self._leases_logged > LEASES_EVERY
                if outage.rows and new:
                    self._leases_logged, self._leases_error = time.monotonic(), str(error)
                    keeper_log.warning("%s leases could not be renewed: %s; trying again", outage.rows, error)
                else:
                    keeper_log.debug("keeper: %s", error)
            case Part.WAKE_UPS if isinstance(error, Deaf):
                listener_log.warning(
                    "LISTEN receives no notifications: %s; polling continues, trying again in %g s", error, PROBE_EVERY
                )
            case Part.WAKE_UPS if not expected:
                listener_log.error("cannot listen for wake-ups; polling continues, trying again", exc_info=error)
            case Part.WAKE_UPS:
                if first:
                    listener_log.warning("no wake-ups for now: %s; polling continues, trying again", error)
            case Part.HOUSEKEEPING:
                if first:
                    housekeeping_log.warning("housekeeping: %s; trying again", error)
            case Part.SCHEDULES:
                if first:
                    schedules_log.warning("schedules: %s; trying again", error)
            case Part.WORKFLOWS:
                if first:
                    worker_log.warning(
                        "steps of %s workflow instances are waiting for the database: %s; trying again",
                        outage.rows, error,
                    )  # fmt: skip
            case Part.RECOVERY:
                if first:
                    supervisor_log.warning(
                        "the rows of a process that died could not be handed back: %s; trying again", error
                    )
            case _:
                assert_never(outage.part)

    def available(self, part: Part, failures: int, seconds: float) -> None:
        if part is Part.LEASES:
            self._leases_logged = -math.inf
        if part is Part.TRANSACTIONS:
            worker_log.info("handlers can start transactions again, after %s that failed to start", failures)

    def listening(self, channel: str, again: bool) -> None:
        listener_log.info("listening for wake-ups on %s%s", channel, " again" if again else "")

    # Housekeeping

    def chore_failed(self, chore: str | None, error: Exception) -> None:
        what = f"the chore {chore}" if chore else "the search for chores"
        if isinstance(error, Contended):
            housekeeping_log.info("%s gave way to another transaction: %s; it will be retried", what, error)
        else:
            housekeeping_log.error("%s failed; it will be retried", what, exc_info=error)

    def swept(self, rows: Sequence[Swept]) -> None:
        for row in rows:
            housekeeping_log.log(
                logging.ERROR if row.status == "dead_letter" else logging.WARNING,
                "the lease of job %s (worker %s, generation %s) expired; it is now %s",
                row.id, row.worker, row.generation, SWEPT_AS.get(row.status, row.status),
            )  # fmt: skip

    def expired(self, jobs: Sequence[Expired]) -> None:
        _log_expired(housekeeping_log, jobs)

    def session_ended(self, pid: int, name: str) -> None:
        housekeeping_log.warning("ended session %s (%s), whose lease expired inside a transaction", pid, name)

    def called_dead(self, worker: str, silence: float) -> None:
        housekeeping_log.warning("worker %s has sent no heartbeat for %s s and was marked as dead", worker, silence)

    # Schedules

    def schedule_fired(self, schedule: str, slots: Sequence[datetime], jobs: Sequence[UUID]) -> None:
        schedules_log.debug("schedule %s: enqueued %s jobs, for slots up to %s", schedule, len(jobs), slots[-1])

    def schedule_missed(self, schedule: str, slots: int) -> None:
        schedules_log.warning("schedule %s: %s slots were missed and are skipped", schedule, slots)

    def schedule_failed(self, schedule: str | None, error: Exception) -> None:
        if isinstance(error, InvalidInput):
            schedules_log.error("schedule %s cannot fire: %s; it will be retried", schedule, error)
        else:
            what = f"schedule {schedule}" if schedule else "the search for due schedules"
            schedules_log.error("%s failed; it will be retried", what, exc_info=error)

    # Routes

    def routes_added(self, routes: Sequence[str]) -> None:
        for route in routes:
            worker_log.info(
                "route %s is new: it gets the events that are published from now on; for earlier ones: "
                "holdfast outbox replay --route %s --since …", route, route,
            )  # fmt: skip

    def destination_away(self, route: str, destination: str, error: Exception) -> None:
        worker_log.warning(
            "route %s: %s cannot be reached (%s); its events wait, and lose no attempt; trying again",
            route, destination, _in_short(f"{type(error).__name__}: {error}"),
        )  # fmt: skip

    def destination_back(self, route: str, destination: str) -> None:
        worker_log.info("route %s: %s is connected again", route, destination)

    def destination_unavailable(self, route: str, destination: str, rows: int, error: Exception) -> None:
        worker_log.warning(
            "route %s: %s did not accept %s events (%s); they wait, and lose no attempt; trying again",
            route, destination, rows, _in_short(str(error)),
        )  # fmt: skip

    def connection_lost(self, route: str, destination: str, rows: int, error: BaseException) -> None:
        worker_log.warning(
            "route %s: the connection to %s was lost (%s); %s events with an unknown outcome will be sent again",
            route, destination, _in_short(f"{type(error).__name__}: {error}"), rows,
        )  # fmt: skip

    def events_not_loaded(self, route: str, rows: int, error: Exception) -> None:
        worker_log.warning("route %s: %s events could not be read (%s); they will be retried", route, rows, error)

    # Endpoints of webhooks

    def endpoint_disabled(self, endpoint: UUID, why: str) -> None:
        webhooks_log.warning("webhook endpoint %s is disabled: %s; its deliveries are held", endpoint, why)

    def endpoints_not_noted(self, error: Exception) -> None:
        webhooks_log.warning(
            "the state of webhook endpoints could not be written, and is written with a later batch: %s", error
        )

    # Consumers

    def consumer_stands_by(self, consumer: str) -> None:
        receiving_log.info("%s: another worker consumes; standing by", consumer)

    def consumer_away(self, consumer: str, error: Exception) -> None:
        if isinstance(error, Away):
            receiving_log.warning("%s: %s; trying again", consumer, error)
        else:  # where it happened, of what is no outage
            receiving_log.error("%s: %s; trying again", consumer, in_one_line(error), exc_info=error)

    def consumer_back(self, consumer: str, seconds: float) -> None:
        receiving_log.info("%s: fetching again, after %.1f s", consumer, seconds)

    def messages_not_stored(self, consumer: str, messages: int, error: Exception) -> None:
        receiving_log.warning(
            "%s: %s messages could not be stored: %s; no more are fetched until these are stored, or returned to the "
            "broker",
            consumer, messages, error,
        )  # fmt: skip

    def messages_stored(self, consumer: str, seconds: float) -> None:
        receiving_log.info("%s: messages are stored again, after %.1f s", consumer, seconds)

    def messages_given_back(self, consumer: str, seconds: float) -> None:
        receiving_log.info("%s: the database can be reached again, after %.1f s; fetching continues", consumer, seconds)

    def consumer_taken_over(self, consumer: str, messages: int, error: Exception) -> None:
        receiving_log.warning("%s: %s messages were not stored here: %s, which stores them", consumer, messages, error)

    # Worker processes

    def stop_requested(self, signal: str) -> None:
        supervisor_log.info("%s: draining; send it again to stop now", signal)

    def stop_forced(self, signal: str, running: int, overtime: float) -> None:
        supervisor_log.warning("%s again: stopping now", signal)
        if running:
            supervisor_log.warning(STOPS_NOW, running, overtime)

    def process_not_started(self, isolation: bool, error: Exception) -> None:
        what = "an isolation process" if isolation else "a worker process"
        supervisor_log.warning("%s could not be started: %s; trying again", what, error)

    def process_killed(self, pid: int) -> None:
        supervisor_log.warning("killing worker process %s, which did not end in time", pid)

    def process_died(self, pid: int, worker: str, how: str, started: int, held: int) -> None:
        if worker:
            supervisor_log.warning(
                "worker %s ended by %s; handing back its rows (%s had started)", worker, how, started
            )

    def recovered(self, worker: str, report: Report[Hold]) -> None:
        for hold, error in report.dead:
            supervisor_log.error("job %s is a dead letter: %s", hold.id, error)


def _unknown(waiting: Unknown) -> str:
    count = f"{waiting.rows}{' or more' if waiting.more else ''}"
    version = f" version {waiting.version}" if waiting.version != 1 else ""
    declared = f"declared by {waiting.app}" if waiting.app is not None else "declared by no application"
    return f"{waiting.kind}{version} in queue {waiting.queue} ({count}, {declared})"


def _log_expired(log: logging.Logger, jobs: Iterable[Claim | Expired]) -> None:
    """One line per kind and queue: a backlog that expires may be long."""
    by_kind: dict[tuple[str | None, str], list[UUID]] = defaultdict(list)
    for job in jobs:
        by_kind[job.kind, job.queue].append(job.id)
    for (kind, queue), ids in by_kind.items():
        if len(ids) == 1:
            log.warning("%s %s on queue %s expired: it was not started in time", kind, ids[0], queue)
        else:
            log.warning(
                "%s jobs of %s on queue %s expired: they were not started in time (first: %s)",
                len(ids), kind, queue, ids[0],
            )  # fmt: skip


def _in_short(error: str) -> str:
    return error.partition("\n")[0][:200]


class _Traceback(Exception):
    """Of an error in a handler process, from which only text comes back; as concurrent.futures shows it."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _raised(failure: AttemptFailed) -> BaseException | None:
    """What the handler raised, or a stand-in of the same name if that is not here, or is not fit to be logged."""
    cause, trace = failure.cause, failure.trace
    if not trace or (cause is not None and trim(trace, MOST_TEXT) == trace):
        return cause
    named = type(trim(failure.error, 256).replace("\0", ""), (Exception,), {"__module__": "builtins"})
    error: BaseException = named(trim(failure.message, MOST_TEXT))
    if cause is None:
        error.__cause__ = _Traceback(trim(trace, MOST_TEXT))
    return error.with_traceback(cause.__traceback__ if cause is not None else None)
