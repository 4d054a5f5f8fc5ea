"""Send jobs, on a connection of Holdfast's own or on a caller's. Every door sends through here.

If the application is traced, each call is surrounded by a span, and what it sends carries the headers of that span.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast
from uuid import UUID

from .db.callers import Caller
from .inbox import enqueue
from .making import Batch, job_with_headers
from .model.terms import NewJob, Stored
from .model.tracing import Tracing

if TYPE_CHECKING:
    from .app import Holdfast

Note = Callable[[UUID], None]
"""Called with the id under which something was stored."""


async def send(app: Holdfast, job: NewJob) -> Stored:
    """Enqueue a job and commit it."""
    with _traced(app._tracing, job) as (job, note):
        stored = await app._calls.enqueue(job)
        note(stored.id)
    return stored


async def send_on_async(app: Holdfast, caller: Caller, job: NewJob) -> Stored:
    """Enqueue a job in the caller's open transaction."""
    with _traced(app._tracing, job) as (job, note):
        stored = await cast(Awaitable[Stored], caller.run(enqueue.one(app._database, job)))
        note(stored.id)
    return stored


def send_on_sync(app: Holdfast, caller: Caller, job: NewJob) -> Stored:
    """As `send_on_async`, on a synchronous connection."""
    with _traced(app._tracing, job) as (job, note):
        stored = cast(Stored, caller.run(enqueue.one(app._database, job)))
        note(stored.id)
    return stored


async def send_many(app: Holdfast, batch: Batch, copy: bool | None) -> list[Stored]:
    """Enqueue a batch, all or none, and commit it."""
    with _traced_many(app._tracing, batch):
        return await app._calls.enqueue_many(batch, copy)


async def send_many_on_async(app: Holdfast, caller: Caller, batch: Batch) -> list[Stored]:
    """Enqueue a batch in the caller's open transaction."""
    stored: list[Stored] = []
    with _traced_many(app._tracing, batch):
        for operation in enqueue.many(app._database, batch.all()):
            stored += await cast(Awaitable[list[Stored]], caller.run(operation))
    return stored


def send_many_on_sync(app: Holdfast, caller: Caller, batch: Batch) -> list[Stored]:
    """As `send_many_on_async`, on a synchronous connection."""
    stored: list[Stored] = []
    with _traced_many(app._tracing, batch):
        for operation in enqueue.many(app._database, batch.all()):
            stored += cast(list[Stored], caller.run(operation))
    return stored


def _traced(tracing: Tracing | None, job: NewJob) -> AbstractContextManager[tuple[NewJob, Note]]:
    return nullcontext((job, _no_note)) if tracing is None else _in_span(tracing, job)


@contextmanager
def _in_span(tracing: Tracing, job: NewJob) -> Iterator[tuple[NewJob, Note]]:
    with tracing.sending("send", job._terms.queue, None, job.id) as sending:
        yield job_with_headers(job, sending.headers), sending.stored


@contextmanager
def _traced_many(tracing: Tracing | None, batch: Batch) -> Iterator[None]:
    if tracing is None or not len(batch):
        yield
        return
    with tracing.sending("send", batch.queue, len(batch), None) as sending:
        batch.add_headers(sending.headers)
        yield


def _no_note(id: UUID) -> None:
    """Nobody is interested."""
