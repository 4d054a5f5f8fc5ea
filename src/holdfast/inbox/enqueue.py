"""Accept work: one row, in the caller's transaction or our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from ..db.callers import Operation, Row
from ..db.database import Database
from ..errors import IdempotencyConflict
from ..model.keys import bucket
from ..model.terms import NewJob, Stored

T = TypeVar("T")

MANY = 2000
"""Rows per statement."""


def one(database: Database, job: NewJob) -> Operation[Stored]:
    """Enqueue one job."""
    plain = job._terms.plain
    if plain is None or job.unique:
        return _once(database, [job], lambda stored: stored[0])
    id = str(job.id)
    key = job.key if job.key is not None else id
    return Operation(
        database.sql("inbox", "enqueue"),
        (id, key, bucket(key), job.payload, *plain, job._terms.kind),
        lambda rows: Stored(job.id),
        (job,),
    )


def ask_again(database: Database, job: NewJob) -> Operation[None]:
    """Make the first try, which got no answer, fail if it arrives late. Commit this before `again`."""
    return Operation(database.sql("inbox", "ask_again"), (str(job.id),), lambda rows: None)


def again(database: Database, job: NewJob) -> Operation[Stored]:
    """Enqueue a job whose first try got no answer. Finds it if it was stored, even if it has ended since."""
    return _once(database, [job], lambda stored: _ours(job, stored[0]))


def all_again(database: Database, jobs: Sequence[NewJob]) -> Operation[list[Stored]]:
    """Enqueue many whose first try got no answer."""
    return _once(database, jobs, lambda stored: list(map(_ours, jobs, stored)))


def _ours(job: NewJob, stored: Stored) -> Stored:
    """A job found under the id that we drew is the one we asked for, unless the caller chose the id."""
    return Stored(stored.id) if stored.id == job.id else stored


def many(database: Database, jobs: Sequence[NewJob]) -> list[Operation[list[Stored]]]:
    """Enqueue many jobs: as few statements as their number allows."""
    if any(job.unique for job in jobs):
        # One statement, however many: it is the unit in which a conflict leaves nothing behind.
        return [_once(database, jobs, list)] if jobs else []
    return [_many(database, jobs[start : start + MANY]) for start in range(0, len(jobs), MANY)]


def _many(database: Database, jobs: Sequence[NewJob]) -> Operation[list[Stored]]:
    ids = [str(job.id) for job in jobs]
    keys = [job.key if job.key is not None else id for job, id in zip(jobs, ids, strict=True)]
    return Operation(
        database.sql("inbox", "enqueue_many"),
        (ids, keys, [bucket(key) for key in keys], [job.payload for job in jobs], *_terms(jobs)),
        lambda rows: [Stored(job.id) for job in jobs],
        jobs,
    )


def _once(database: Database, jobs: Sequence[NewJob], shape: Callable[[list[Stored]], T]) -> Operation[T]:
    def decode(rows: Sequence[Row]) -> T:
        stored: list[Stored | None] = [None] * len(jobs)
        for found, existed, conflict, position, replaced in rows:
            if conflict is not None:
                raise _conflict(jobs[position - 1], found, conflict)
            stored[position - 1] = Stored(UUID(found), existed, replaced)
        return shape([each for each in stored if each is not None])

    return Operation(
        database.sql("inbox", "enqueue_once"),
        ([str(job.id) for job in jobs], [job.key for job in jobs], [job.payload for job in jobs],
         [job.idempotency_key for job in jobs], *_terms(jobs)),
        decode,
        jobs,
    )  # fmt: skip


def _terms(jobs: Sequence[NewJob]) -> tuple[list[int], list[str]]:
    """For each job the number of its terms; and the different terms, as JSON."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(job._terms.text, len(numbers) + 1) for job in jobs], list(numbers)


def _conflict(job: NewJob, found: str, conflict: str) -> IdempotencyConflict:
    if job.idempotency_key is None:
        return IdempotencyConflict("id", f"{found} is a job that has {conflict}; use a new id for new work")
    return IdempotencyConflict(
        "idempotency_key",
        f"{job.idempotency_key!r} belongs to job {found}, which has {conflict}; use a new key for new work",
    )
