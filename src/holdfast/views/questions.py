"""Answers as plain values, for people (`next_step`) and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, get_args
from uuid import UUID

import msgspec

from ..errors import InvalidInput
from ..model.durations import Duration, seconds

Row = Mapping[str, Any]


def moment(at: datetime) -> str:
    """Return a time as people read it: in UTC, which the letter Z says."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


LiveStatus = Literal["pending", "processing", "blocked", "dead_letter"]
LIVE: tuple[LiveStatus, ...] = get_args(LiveStatus)
MOST = 1_000_000
"""Ids that one question returns, unless its limit says otherwise."""


class JobFilter(TypedDict, total=False):
    """Which live jobs; what is left out or None matches all."""

    status: LiveStatus | None
    queue: str | None
    kind: str | None
    error: str | None
    """Text that the last error contains."""
    since: Duration | None
    """Enqueued within this time; of dead letters: became one within it."""
    waiting: bool
    """Only pending jobs that wait for their time or their retry?"""
    limit: int
    """The most to find; a million by default."""


def find_arguments(filters: JobFilter) -> tuple[Any, ...]:
    """Return the arguments of find.sql."""
    if unknown := sorted(filters.keys() - set(JobFilter.__annotations__)):
        raise InvalidInput(unknown[0], f"is not a filter; expected one of {', '.join(JobFilter.__annotations__)}")
    status, since = filters.get("status"), filters.get("since")
    if status is not None and status not in LIVE:
        raise InvalidInput("status", f"expected one of {', '.join(LIVE)}; got {status!r}")
    within = seconds(since, "since") if since is not None else None
    statuses = list(LIVE) if status is None else [status]
    words = (filters.get("queue"), filters.get("kind"), filters.get("error"))
    return statuses, *words, within, filters.get("waiting", False), filters.get("limit", MOST)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far an attempt was, as its handler reported it."""

    fraction: float
    text: str
    attempt: int
    at: datetime

    def __str__(self) -> str:
        return f"{self.fraction:.0%} {self.text}".rstrip() + f" (attempt {self.attempt}, {moment(self.at)})"


def job_progress(stored: Any) -> JobProgress | None:
    """Return the progress that is stored; None for what is written by hand in another form."""
    try:
        return msgspec.convert(stored, JobProgress)
    except msgspec.ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class JobState:
    """A job, as it was when it was read."""

    id: UUID
    kind: str | None
    queue: str
    status: str
    """pending, processing, blocked, dead_letter; at the end: completed, failed, cancelled, expired or discarded"""
    next: str
    """What happens to it next, in words."""
    attempts: int
    max_attempts: int
    result: Any
    """What its handler returned, decoded from JSON."""
    last_error: str | None
    errors: list[dict[str, Any]]
    """Every failed attempt, oldest first."""
    available_at: datetime
    created_at: datetime
    finished_at: datetime | None
    blocked_by: UUID | None = None
    """The job of the same ordered key that must end first."""
    progress: JobProgress | None = None
    """What was last reported with `ctx.progress`; None if nothing was, and after the job has ended."""


def job_state(row: Row) -> JobState:
    """Return the job of a row of job.sql."""
    return JobState(
        id=row["id"],
        kind=row["kind"],
        queue=row["queue"],
        status=row["status"],
        next=next_step(row),
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        result=msgspec.json.decode(row["result"]) if row["result"] is not None else None,
        last_error=row["last_error"],
        errors=msgspec.json.decode(row["errors"]) if row["errors"] is not None else [],
        available_at=row["available_at"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        blocked_by=row["blocked_by"],
        progress=job_progress(msgspec.json.decode(row["progress"])) if row["progress"] is not None else None,
    )


def next_step(job: Row) -> str:
    """Return what happens to this job next, and what it waits for."""
    match job["status"]:
        case "completed":
            return "nothing: it completed"
        case "failed":
            return f"nothing: it failed permanently ({job['last_error']})"
        case "expired":
            return f"nothing: it expired before it started ({job['last_error']})"
        case "discarded":
            return f"nothing: it was discarded ({job['last_error']})"
        case "cancelled":
            return f"nothing: it was cancelled ({job['last_error']})"
        case "dead_letter":
            return f"nothing, until you revive or discard it: holdfast dead revive {job['id']}"
        case "blocked":
            return _behind_its_head(job) or "is next in its key; a worker or housekeeping unparks it soon"
        case "processing":
            return _while_processing(job)
    return _while_pending(job)


def _while_processing(job: Row) -> str:
    left = (job["lease_expires_at"] - job["now"]).total_seconds() if job["lease_expires_at"] else 0.0
    asked = "; its handler was told to stop" if job["cancel_requested_at"] else ""
    if left > 0:
        where = job["claimed_by"] if job["owner_seen"] else f"{job['claimed_by']}, which has not been seen for 30 s"
        return f"runs on {where}; lease until {moment(job['lease_expires_at'])}, in {left:.0f} s{asked}"
    if job["cancel_requested_at"]:
        after = "end as cancelled"
    else:
        after = "be retried" if job["attempts"] < job["max_attempts"] else "become a dead letter"
    return f"its lease expired {-left:.0f} s ago; housekeeping will sweep it, and it will {after}"


def _behind_its_head(job: Row) -> str:
    """Return what an ordered job waits for; an empty text if it is the head of its key."""
    if job["blocked_by"] is None:
        return ""
    if job["blocker_status"] == "processing":
        why = f"runs on {job['blocker_worker']}"
    elif job["blocker_due"] > job["now"]:
        why = f"waits for its retry at {moment(job['blocker_due'])}"
    else:
        why = "comes first"
    return f"blocked by job {job['blocked_by']} of the same key, which {why}"


def _while_pending(job: Row) -> str:
    wait = (job["available_at"] - job["now"]).total_seconds()
    if job["paused"]:
        return f"waits: queue {job['queue']} is paused; holdfast queue resume {job['queue']}"
    if job["kind"] is None:
        return 'waits: its payload has no "type", so no handler can be found'
    if job["attempts"] >= job["max_attempts"]:
        return "has no attempt left; housekeeping will make it a dead letter"
    if not job["runnable_somewhere"]:
        return f"waits: no live worker on queue {job['queue']} knows {job['kind']} version {job['version']}"
    if wait > 0:
        why = f"retry after attempt {job['attempts']}" if job["attempts"] else "scheduled"
        return f"{why}: due at {moment(job['available_at'])}, in {wait:.0f} s"
    if job["blocked_by"] is not None:
        return _behind_its_head(job)
    if job["crashes"]:
        return f"due for {-wait:.1f} s; it will run in isolation, because its last attempt ended when its process died"
    return f"due for {-wait:.1f} s; the next free worker claims it"
