"""Decide which `Outcome` an attempt has, from what happened.

Of a failed attempt, it says after which delay to retry, and whether to give up. The function `fail_attempts` in the
database then decides between a retry, a dead letter and an end as cancelled: it knows how many attempts are left, and
whether the job was cancelled meanwhile.

returned        the handler's value
raised          the handler's exception
ended_transaction  it committed or rolled back `ctx.tx` itself
stopped         it was told to stop, and did
unstarted       it was claimed, and is not run
process_gone    the process around it ended
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import Any, assert_never

from msgspec.structs import replace

from ...errors import Cancelled, InvalidPayload, LeaseLost, Timeout
from ...model import payload
from ...model.backoff import Backoff
from ...model.durations import seconds
from ...model.job import Claim
from ...model.outcome import (
    DONE,
    AttemptFailed,
    Completed,
    Ended,
    Fail,
    Final,
    HandedBack,
    Lost,
    Outcome,
    Retry,
    Snooze,
    Snoozed,
    failure,
    unstorable,
)

log = logging.getLogger("holdfast.worker")

BUSY_AGAIN = 1.0
"""Seconds until a job is retried because another attempt is inside its once() block."""
PUT_OFF = 5.0
"""Seconds until an attempt is retried, perhaps on another worker, for which there was no process."""


class OnceBusy(Exception):
    """Another live attempt is inside the once() block."""

    gives_attempt_back = True


class Draining(Exception):
    """The worker stops before the handler has finished."""


Stop = LeaseLost | Cancelled | Timeout | Draining
"""Why an attempt is told to stop."""


class Unstarted(Enum):
    """Why a claimed job is not run here."""

    LEASE_OVER = auto()
    """It was not renewed for a whole lease."""
    LEASE_LOST = auto()
    RECALLED = auto()
    """The keeper has handed it back, because this worker did not run."""
    WAITED = auto()
    """It could not start in time, or the worker drains."""
    CANCELLED = auto()
    """While an earlier attempt ran."""
    EXPIRED = auto()
    """By the database's clock, when it was claimed."""
    MAY_HAVE_EXPIRED = auto()
    """Since it was claimed: the database decides at its next claim."""
    NO_TRANSACTION = auto()
    NO_PROCESS = auto()


class Around(Enum):
    """What an attempt was doing when the process around it ended."""

    RUNNING = auto()
    ENDED = auto()
    """Its ending was not written yet."""
    OVERDUE = auto()
    """It did not stop: the process was killed because of it."""
    BESIDE = auto()
    """The process was killed because of another attempt, or ended by itself in a drain."""
    APART = auto()
    """It had a process to itself (`process=True`)."""


def returned(value: Any) -> Outcome:
    if value is None:
        return DONE
    if isinstance(value, (Snooze, Fail)):
        return _asked_for(value)
    if isinstance(value, Retry):
        # In a transaction, returning commits, and a failed attempt must not.
        return AttemptFailed("TypeError", "the handler returned Retry(…); raise it", give_up=True)
    try:
        return Completed(payload.encode_value("result", value))
    except InvalidPayload as refused:
        return unstorable("handler", refused)


def ended_transaction(error: BaseException | None = None) -> AttemptFailed:
    """`error`: what the handler raised afterwards. A retry might repeat what it has committed."""
    return AttemptFailed(
        "TransactionEnded",
        "the handler ended the transaction of ctx.tx itself, so nothing guarded its writes, and they did not commit "
        "with the ending; leave COMMIT and ROLLBACK to Holdfast. It is not retried: what it wrote may be committed",
        give_up=True,
        cause=error,
    )


def _asked_for(ending: Snooze | Fail) -> Outcome:
    if isinstance(ending, Snooze):
        return Snoozed(seconds(ending.delay), counted=True)
    return Ended(Final.FAILED, str(ending.reason))


def raised(error: BaseException, attempt: int = 1, retry: Backoff | None = None) -> Outcome:
    inner = error
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]  # as a task group raises it
    match inner:
        case OnceBusy():
            return Snoozed(BUSY_AGAIN)
        case LeaseLost():
            return Lost()
        case Snooze() | Fail():
            try:
                return _asked_for(inner)
            except Exception:  # a subclass without what it needs, or a reason that cannot be read
                return failure(error)
        case Retry():
            try:
                return AttemptFailed("Retry", str(inner.reason), delay=seconds(inner.delay))
            except Exception:
                return failure(error)
        case _:
            return _judged(failure(error), inner, attempt, retry)


def _judged(failed: AttemptFailed, error: BaseException, attempt: int, retry: Backoff | None) -> AttemptFailed:
    """The failure, with what the task's policy says about it."""
    if retry is None:
        return failed
    try:
        delay, give_up = retry.judge(attempt, error)
    except Exception:
        log.exception("the retry policy failed for attempt %s; using the delay that base, factor and cap give", attempt)
        delay, give_up = retry.delay(attempt), False
    return replace(failed, delay=delay, give_up=give_up)


def stopped(reason: Stop, attempt: int = 1, retry: Backoff | None = None) -> Outcome:
    match reason:
        case LeaseLost():
            return Lost()
        case Cancelled():
            return Ended(Final.CANCELLED, str(reason))
        case Timeout():
            return _judged(AttemptFailed("Timeout", str(reason), cause=reason), reason, attempt, retry)
        case Draining():
            return HandedBack()
        case _:
            assert_never(reason)


def unstarted(why: Unstarted) -> Outcome:
    match why:
        case Unstarted.LEASE_OVER | Unstarted.LEASE_LOST:
            return Lost()
        case Unstarted.RECALLED | Unstarted.WAITED | Unstarted.NO_TRANSACTION | Unstarted.MAY_HAVE_EXPIRED:
            return HandedBack()
        case Unstarted.CANCELLED:
            return Ended(Final.CANCELLED, "cancelled while an earlier attempt ran")
        case Unstarted.EXPIRED:
            return Ended(Final.EXPIRED, "not started in time")
        case Unstarted.NO_PROCESS:
            return Snoozed(PUT_OFF)
        case _:
            assert_never(why)


def barred(claim: Claim, flow: bool, now: int) -> Unstarted | None:
    """Return why a claimed row must not be run, as far as the row says it; `now` as for `expiry`.

    `flow`: is it a workflow? A cancelled instance is run, to be undone, and one that has begun does not expire.
    """
    if claim.cancelled and not flow:
        return Unstarted.CANCELLED
    return None if flow and claim.generation > 1 else expiry(claim, now)


def expiry(claim: Claim, now: int) -> Unstarted | None:
    """Return why an attempt must not start now, if its job can expire; `now` is of the ledger's clock.

    A worker ends only what the database's clock called expired. Its own can say that a start would be too late, but not
    that it is: the claim was sent before the database read its clock. Then the row is handed back. So nothing starts
    late, and nothing that has time left ends.
    """
    if claim.expires_in is None:
        return None
    if claim.expires_in <= 0:
        return Unstarted.EXPIRED
    return Unstarted.MAY_HAVE_EXPIRED if now >= claim.start_by else None


def process_gone(around: Around, how: str) -> Outcome:
    """`how`: as in "ended by signal SIGKILL"."""
    match around:
        case Around.RUNNING:
            return AttemptFailed("WorkerDied", f"the worker process {how} during this attempt", crashed=True)
        case Around.ENDED:
            return AttemptFailed("WorkerDied", f"the worker process {how} before the ending was written")
        case Around.OVERDUE:
            words = "the attempt was over its timeout and could not be cancelled; its process was killed"
            return AttemptFailed("Timeout", words)
        case Around.BESIDE:
            return HandedBack()
        case Around.APART:
            return AttemptFailed("ProcessDied", f"the process of this attempt {how}")
        case _:
            assert_never(around)
