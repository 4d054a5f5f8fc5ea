"""Occurrences: what happens inside a worker, its keeper and its supervisor, reported to subscribers.

An occurrence is a method of `Subscriber`. To report one, call it on `Occurrences`, with one call per batch where the
work is done in batches:

    self._occurrences.claimed(claims)

An occurrence without a subscriber costs the call of an empty method. Subscribers are called in the thread and on the
loop that does the work, so they must be quick, and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import reduce
from typing import Any
from uuid import UUID

import msgspec

from .flow import AnyOutcome
from .job import Claim, Hold, Holding
from .outcome import AttemptFailed
from .report import Report


class Part(StrEnum):
    """The parts of a worker that need the server. Each notices an outage by itself."""

    START = "start"
    CLAIM = "claim"
    HAND_OVER = "hand over"
    ENDINGS = "endings"
    TRANSACTIONS = "transactions"
    LEASES = "leases"
    WAKE_UPS = "wake-ups"
    HOUSEKEEPING = "housekeeping"
    SCHEDULES = "schedules"
    RECOVERY = "recovery"
    WORKFLOWS = "workflows"


class Outage(msgspec.Struct, frozen=True):
    """A call of one part failed. It is retried."""

    part: Part
    error: Exception
    failures: int
    """In a row, including this one."""
    rows: int = 0
    """How many rows wait for this call."""


class Unknown(msgspec.Struct, frozen=True):
    """A kind of jobs that wait in a queue, and that no live worker can run."""

    queue: str
    kind: str
    version: int
    rows: int
    """How many wait, at least."""
    more: bool
    """Whether there may be more than that."""
    app: str | None
    """The application that declared the kind, if one did."""


class Swept(msgspec.Struct, frozen=True):
    """A row whose lease expired, or whose process died, and its status since then."""

    id: UUID
    worker: str
    generation: int
    status: str
    queue: str = ""
    kind: str = ""


class Expired(msgspec.Struct, frozen=True):
    """A job that ended as expired while it waited."""

    id: UUID
    kind: str | None
    queue: str


class Subscriber:
    """Override the methods of the occurrences that you need."""

    # A worker

    def worker_started(self, worker: str, queues: Sequence[str], concurrency: int, isolation: bool) -> None:
        """A worker is registered and begins to claim."""

    def drain_began(self, worker: str) -> None:
        """A worker claims nothing more."""

    def worker_stopped(self, worker: str, completed: int) -> None:
        """A worker has left; it completed this number of jobs."""

    def worker_failed(self, worker: str, error: BaseException) -> None:
        """An error of the worker itself, not of a handler; it stops."""

    def lifespan_failed(self, worker: str, error: BaseException) -> None:
        """The application's lifespan ended with an error, while the worker ran or when it was left."""

    def registration_failed(self, worker: str, status: str, error: Exception) -> None:
        """The worker's new status could not be written to the registry."""

    def kinds_unknown(self, waiting: Sequence[Unknown]) -> None:
        """Jobs of these kinds wait in the worker's queues, and no live worker can run them. Not reported each time."""

    # Attempts

    def claimed(self, claims: Sequence[Claim]) -> None:
        """These rows were claimed."""

    def started(self, claim: Claim) -> None:
        """An attempt began."""

    def not_started(self, claim: Claim, error: Exception, delay: float) -> None:
        """An attempt had no process to run in; it is retried after `delay` seconds."""

    def start_overdue(self, claims: Sequence[Claim], seconds: float) -> None:
        """These rows could not start in time, after `seconds`; they are handed back."""

    def timed_out(self, claim: Claim) -> None:
        """An attempt ran longer than its timeout, and was stopped."""

    def loop_blocked(self, claim: Claim, seconds: float) -> None:
        """An async handler kept the event loop from running anything else, for this long."""

    def overdue(self, held: Holding, pid: int | None) -> None:
        """A handler is over its timeout and its grace period. Its process `pid` is killed; None: its lease expires."""

    def failed(self, claim: Claim, failure: AttemptFailed) -> None:
        """An attempt failed; its ending is not written yet."""

    def ended(self, endings: Sequence[tuple[Claim, AnyOutcome]], report: Report[Claim]) -> None:
        """The endings of these attempts are written, except those that the report calls lost."""

    def ending_lost(self, claim: Claim) -> None:
        """The ending of this attempt was not written: another worker has the row, or may have it."""

    def ending_rejected(self, claim: Claim, error: Exception) -> None:
        """The server rejected the ending of this attempt; `ending_lost` follows."""

    def endings_unwritten(self, endings: int) -> None:
        """The worker stops, and this number of endings is not written; their leases expire."""

    def handlers_left(self, handlers: int) -> None:
        """The worker stops, and this number of handlers still runs; their leases expire."""

    def handler_process_failed(self, error: Exception) -> None:
        """The first process for handlers could not be started; it is retried."""

    # Leases

    def renewed(self, worker: str, rows: int) -> None:
        """Leases of this worker were renewed: one batch."""

    def lease_lost(self, held: Holding) -> None:
        """A lease could not be renewed in time, or another worker has the row."""

    def recalled(self, worker: str, rows: int, stopped: bool) -> None:
        """A worker does not run, and its rows that had not started were handed back. `stopped`: by SIGSTOP."""

    def unanswered(self, worker: str, rows: int) -> None:
        """The answer to a claim was lost, and its rows were handed back."""

    def absent(self, worker: str) -> None:
        """A worker does not run, and does not count as live from now on."""

    def present(self, worker: str) -> None:
        """A worker that was absent runs again, and counts as live."""

    def unregistered(self, worker: str) -> None:
        """The registry does not know this worker; it registers again."""

    def heartbeat(self, counters: Mapping[str, Mapping[str, int]]) -> None:
        """A heartbeat was written, with these counters of these workers."""

    # The server

    def unavailable(self, outage: Outage) -> None:
        """A part of the worker cannot reach the server, or the server cannot serve it now. Reported for each try."""

    def available(self, part: Part, failures: int, seconds: float) -> None:
        """A part is served again; how many calls failed, and how long that took."""

    def listening(self, channel: str, again: bool) -> None:
        """A host receives wake-ups on this channel."""

    # Housekeeping

    def chore_ran(self, chore: str, rows: int, seconds: float) -> None:
        """One batch of a chore is committed."""

    def chore_failed(self, chore: str | None, error: Exception) -> None:
        """A chore failed, or with None, the search for chores that are due. It is retried at its next turn."""

    def chore_postponed(self, chore: str, seconds: float) -> None:
        """The server was away a moment ago: nothing is taken from other workers for up to `seconds`."""

    def swept(self, rows: Sequence[Swept]) -> None:
        """The leases of these rows had expired."""

    def expired(self, jobs: Sequence[Expired]) -> None:
        """These jobs had waited past their expiry, and have ended. Those that a worker had claimed: see `ended`."""

    def session_ended(self, pid: int, name: str) -> None:
        """The session of an attempt whose lease had expired was ended."""

    def called_dead(self, worker: str, silence: float) -> None:
        """A worker has sent no heartbeat for `silence` seconds, and is marked as dead in the registry."""

    # Schedules

    def schedule_fired(self, schedule: str, slots: Sequence[datetime], jobs: Sequence[UUID]) -> None:
        """These slots of a schedule were fired here. The jobs are the new ones: a slot may have had one before."""

    def schedule_missed(self, schedule: str, slots: int) -> None:
        """So many slots of a schedule were missed, and get no job by its policy."""

    def schedule_failed(self, schedule: str | None, error: Exception) -> None:
        """A schedule could not be fired, or with None, the search for those that are due. It is retried."""

    # Routes

    def routes_added(self, routes: Sequence[str]) -> None:
        """These routes are new: events that were published before are not sent along them."""

    def destination_away(self, route: str, destination: str, error: Exception) -> None:
        """The destination of a route could not be connected to, again or for the first time. It is retried."""

    def destination_back(self, route: str, destination: str) -> None:
        """The destination of a route is connected again."""

    def destination_reached(self, route: str, reached: bool) -> None:
        """Whether the destination of a route can be connected to: told at each change, and not only once a minute."""

    def destination_unavailable(self, route: str, destination: str, rows: int, error: Exception) -> None:
        """The destination has said that it takes nothing now, or a part of it. Its messages wait."""

    def connection_lost(self, route: str, destination: str, rows: int, error: BaseException) -> None:
        """The connection was lost with so many messages of unknown fate, which are sent again."""

    def events_not_loaded(self, route: str, rows: int, error: Exception) -> None:
        """The events of so many deliveries could not be read; they are handed back, and retried."""

    # Endpoints of webhooks

    def endpoint_disabled(self, endpoint: UUID, why: str) -> None:
        """An endpoint was disabled because of its failures, and its deliveries are held."""

    def endpoints_not_noted(self, error: Exception) -> None:
        """What has changed about endpoints could not be written; a later batch finds the same."""

    # Consumers

    def consumer_stands_by(self, consumer: str) -> None:
        """Another worker has the consumer."""

    def consumer_away(self, consumer: str, error: Exception) -> None:
        """A broker cannot be consumed from. Told once per outage; it is retried."""

    def consumer_back(self, consumer: str, seconds: float) -> None:
        """A broker is consumed from again, after `seconds`."""

    def messages_not_stored(self, consumer: str, messages: int, error: Exception) -> None:
        """Messages of a broker could not be stored. Told once per outage; they are kept, and nothing is fetched."""

    def messages_stored(self, consumer: str, seconds: float) -> None:
        """They are stored again, after `seconds`."""

    def messages_given_back(self, consumer: str, seconds: float) -> None:
        """They went back to the broker meanwhile; after `seconds`, messages can be stored, and are fetched again."""

    def consumer_taken_over(self, consumer: str, messages: int, error: Exception) -> None:
        """Another worker has taken the consumer, and stores these messages."""

    # Worker processes

    def stop_requested(self, signal: str) -> None:
        """The supervisor was asked to drain its processes."""

    def stop_forced(self, signal: str, running: int, overtime: float) -> None:
        """It was asked again: it interrupts so many running jobs, and kills processes after `overtime` seconds."""

    def process_started(self, pid: int, isolation: bool) -> None:
        """A worker process was started."""

    def process_not_started(self, isolation: bool, error: Exception) -> None:
        """A worker process could not be started; it is retried."""

    def process_killed(self, pid: int) -> None:
        """A worker process did not end in time, and was killed."""

    def process_ready(self, pid: int, worker: str, isolation: bool) -> None:
        """The worker of a process is registered and begins to claim."""

    def process_ended(self, pid: int, worker: str, isolation: bool) -> None:
        """A worker process has drained and ended."""

    def process_died(self, pid: int, worker: str, how: str, started: int, held: int) -> None:
        """A worker process ended with an error, or with rows: it held so many, and `started` attempts ran. No `worker`:
        it was not ready yet."""

    def recovered(self, worker: str, report: Report[Hold]) -> None:
        """What a process that died had started is written as failed, and the rest is handed back."""

    def died(self, rows: Sequence[Swept]) -> None:
        """These attempts ended with their process, and are written as failed."""


class Occurrences(Subscriber):
    """All subscribers as one. What it reports is declared once, as a method of `Subscriber`."""

    def __init__(self, *subscribers: Subscriber) -> None:
        for name, silent in vars(Subscriber).items():
            if name.startswith("_"):
                continue
            methods = [getattr(each, name) for each in subscribers]
            heard = [each for each in methods if getattr(each, "__func__", each) is not silent]
            if heard:
                both = _both_of_one if silent.__code__.co_argcount == 2 else _both  # itself, and what it is told
                setattr(self, name, reduce(both, heard))


def _both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    def tell(*arguments: Any) -> None:
        first(*arguments)
        second(*arguments)

    return tell


def _both_of_one(first: Callable[[Any], None], second: Callable[[Any], None]) -> Callable[[Any], None]:
    """The same without a tuple of arguments: each attempt is reported on its own as it starts."""

    def tell(argument: Any) -> None:
        first(argument)
        second(argument)

    return tell
