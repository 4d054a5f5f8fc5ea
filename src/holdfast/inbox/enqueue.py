"""Work is accepted: one row, in the caller's transaction or our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from ..db.callers import Operation, Row
from ..db.database import Database
from ..errors import IdempotencyConflict
from ..model.job import Job
from ..model.keys import bucket

T = TypeVar("T")

MANY = 2000
"""Rows per statement."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """One job to enqueue, checked and encoded."""

    id: UUID
    payload: str
    key: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What the jobs of one call have in common."""

    kind: str
    queue: str
    priority: int
    delay: float | None
    at: datetime | None
    max_attempts: int
    version: int
    headers: str | None
    ordered: bool | None = None
    """One at a time and in order, per key; None: as the queue says."""
    skips: bool | None = None
    """Does a job that waits for its retry let the others of its key pass?"""
    own_id: bool = False
    """The caller brought the id: a repetition must find the first job."""

    @property
    def instant(self) -> str | None:
        return self.at.isoformat() if self.at is not None else None


def one(database: Database, order: Order, terms: Terms) -> Operation[Job]:
    """Enqueue one job."""
    if order.idempotency_key is not None or terms.own_id:
        return _once(database, [order], terms, lambda jobs: jobs[0])
    key = order.key if order.key is not None else str(order.id)
    return Operation(
        database.sql("inbox", "enqueue"),
        (str(order.id), key, bucket(key), order.payload, terms.queue, terms.priority, terms.delay, terms.instant,
         terms.max_attempts, terms.version, terms.headers, terms.ordered, terms.skips),
        lambda rows: Job(order.id),
    )  # fmt: skip


def ask_again(database: Database, order: Order) -> Operation[None]:
    """Let the first try, which got no answer, come to nothing from now on; to be committed before `again`."""
    return Operation(database.sql("inbox", "ask_again"), (str(order.id),), lambda rows: None)


def again(database: Database, order: Order, terms: Terms) -> Operation[Job]:
    """Enqueue a job whose first try got no answer; finds it if it was stored, also if it has ended since."""
    return _once(database, [order], terms, lambda jobs: _ours(order, jobs[0]))


def all_again(database: Database, orders: Sequence[Order], terms: Terms) -> Operation[list[Job]]:
    """Enqueue many whose first try got no answer."""
    return _once(database, orders, terms, lambda jobs: list(map(_ours, orders, jobs)))


def _ours(order: Order, job: Job) -> Job:
    """A job found under the id that we drew is the one we asked for, unless the caller drew it."""
    return Job(job.id) if job.id == order.id else job


def many(database: Database, orders: Sequence[Order], terms: Terms) -> list[Operation[list[Job]]]:
    """Enqueue many jobs: as few statements as their number allows."""
    if terms.own_id or any(order.idempotency_key is not None for order in orders):
        # One statement, however many: it is the unit in which a conflict leaves nothing behind.
        return [_once(database, orders, terms, list)] if orders else []
    return [_many(database, chunk, terms) for chunk in _chunks(orders)]


def _chunks(orders: Sequence[Order]) -> list[Sequence[Order]]:
    return [orders[start : start + MANY] for start in range(0, len(orders), MANY)]


def _many(database: Database, orders: Sequence[Order], terms: Terms) -> Operation[list[Job]]:
    ids = [str(order.id) for order in orders]
    keys = [order.key if order.key is not None else id for order, id in zip(orders, ids, strict=True)]
    return Operation(
        database.sql("inbox", "enqueue_many"),
        (ids, keys, [bucket(key) for key in keys], [order.payload for order in orders],
         terms.queue, terms.priority, terms.delay, terms.instant, terms.max_attempts, terms.version, terms.headers,
         terms.ordered, terms.skips),
        lambda rows: [Job(order.id) for order in orders],
    )  # fmt: skip


def _once(database: Database, orders: Sequence[Order], terms: Terms, shape: Callable[[list[Job]], T]) -> Operation[T]:
    def decode(rows: Sequence[Row]) -> T:
        jobs: list[Job | None] = [None] * len(orders)
        for found, existed, conflict, position, *_ in rows:
            if conflict is not None:
                raise _conflict(orders[position - 1], found, conflict)
            jobs[position - 1] = Job(UUID(found), existed)
        return shape([job for job in jobs if job is not None])

    return Operation(
        database.sql("inbox", "enqueue_once"),
        ([str(order.id) for order in orders], [order.key for order in orders], [order.payload for order in orders],
         [order.idempotency_key for order in orders], terms.kind, terms.queue, terms.priority, terms.delay,
         terms.instant, terms.max_attempts, terms.version, terms.headers, terms.ordered, terms.skips),
        decode,
    )  # fmt: skip


def _conflict(order: Order, found: str, conflict: str) -> IdempotencyConflict:
    if order.idempotency_key is None:
        return IdempotencyConflict("id", f"{found} is a job that has {conflict}; use a new id for new work")
    return IdempotencyConflict(
        "idempotency_key",
        f"{order.idempotency_key!r} belongs to job {found}, which has {conflict}; use a new key for new work",
    )
