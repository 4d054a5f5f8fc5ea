"""Answers as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args
from uuid import UUID

import msgspec

from ..errors import InvalidInput
from ..model.durations import Duration, seconds
from ..model.explanation import Explanation
from ..model.moments import moment

Row = Mapping[str, Any]


LiveStatus = Literal["pending", "processing", "blocked", "dead_letter"]
"""The statuses of jobs that have not ended, and of dead letters."""
LIVE: tuple[LiveStatus, ...] = get_args(LiveStatus)
MOST = 1_000_000
"""Ids that one question returns, unless its limit says otherwise."""


class JobFilter(TypedDict, total=False):
    """Which live jobs; what is left out or None matches all.

    ```python
    ids = await hf.find_jobs(status="pending", kind="send_receipt")
    ```
    """

    status: LiveStatus | None
    """'pending', 'processing', 'blocked' or 'dead_letter'."""
    queue: str | None
    """Its queue."""
    kind: str | None
    """The name of its task."""
    error: str | None
    """Text that the last error contains."""
    group: str | None
    """The error group of its last failed attempt: see `dead_groups`."""
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
    return statuses, *words, within, filters.get("waiting", False), filters.get("limit", MOST), filters.get("group")


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far an attempt was, as its handler reported it.

    ```python
    if (progress := (await jobs[0].state()).progress) is not None:
        print(f"{progress.fraction:.0%} {progress.text}")
    ```
    """

    fraction: float
    """From 0 to 1."""
    text: str
    """What the handler said about it."""
    attempt: int
    """The number of the attempt."""
    at: datetime
    """When it was stored."""

    def __str__(self) -> str:
        return f"{self.fraction:.0%} {self.text}".rstrip() + f" (attempt {self.attempt}, {moment(self.at)})"


def job_progress(stored: Any) -> JobProgress | None:
    """Return the progress that is stored; None for what is written by hand in another form."""
    try:
        return msgspec.convert(stored, JobProgress)
    except msgspec.ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead letters that are alike: the same kind, the same exception, raised at the same place.

    ```python
    for each in await hf.dead_groups():
        print(each.count, each.kind, each.error, each.place)
    ```
    """

    group: str | None
    """Its name, for filters; None: dead letters that hand-written SQL has made."""
    count: int
    """How many there are; if `more`, at least."""
    more: bool
    """Were they not all counted?"""
    newest: datetime | None
    """When the newest of them became a dead letter."""
    oldest: datetime | None
    """When the oldest did."""
    id: UUID
    """The newest of them, as a sample."""
    queue: str
    """Its queue."""
    kind: str | None
    """The name of its task."""
    error: str | None
    """The name of its last exception."""
    place: str | None
    """Where the application raised it, as 'module:function'."""
    last_error: str | None
    """Its last error, in words."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job, as it was when it was read.

    ```python
    state = await job.state()
    print(state.status, state.attempts, state.last_error)
    ```
    """

    id: UUID
    """Its id."""
    kind: str | None
    """The name of its task."""
    queue: str
    """Its queue."""
    status: str
    """pending, processing, blocked, dead_letter; at the end: completed, failed, cancelled, expired or discarded."""
    next: str
    """Why it does not run, or what happens to it next, in words: the answer of `hf.explain`."""
    attempts: int
    """How many have begun."""
    max_attempts: int
    """How many it has in all."""
    result: Any
    """What its handler returned, decoded from JSON."""
    last_error: str | None
    """The error of the last failed attempt, or why it ended."""
    errors: list[dict[str, Any]]
    """Every failed attempt, oldest first."""
    available_at: datetime
    """When it is due, or was."""
    created_at: datetime
    """When it was enqueued."""
    finished_at: datetime | None
    """When it ended; None if it has not."""
    blocked_by: UUID | None = None
    """The job of the same ordered key that must end first."""
    progress: JobProgress | None = None
    """What was last reported with `ctx.progress`; None if nothing was, and after the job has ended."""
    expires_at: datetime | None = None
    """No attempt starts after this; None if it cannot expire, and after the job has ended."""


def job_state(row: Row, explanation: Explanation) -> JobState:
    """Return the job of a row of job.sql, and of what explain says about it."""
    return JobState(
        id=row["id"],
        kind=row["kind"],
        queue=row["queue"],
        status=row["status"],
        next=explanation.next,
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        result=msgspec.json.decode(row["result"]) if row["result"] is not None else None,
        last_error=row["last_error"],
        errors=msgspec.json.decode(row["errors"]) if row["errors"] is not None else [],
        available_at=row["available_at"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        blocked_by=explanation.head.id if explanation.head is not None else None,
        progress=job_progress(msgspec.json.decode(row["progress"])) if row["progress"] is not None else None,
        expires_at=row["expires_at"],
    )
