"""A job that is to be enqueued: its payload, and the terms on which it runs."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec


class Terms(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """How a job is to be enqueued. The fields are those of the SQL type `holdfast.terms`."""

    kind: str
    queue: str
    priority: int
    max_attempts: int
    version: int
    delay: float | None = None
    at: datetime | None = None
    headers: dict[str, str] | None = None
    ordered: bool | None = None
    """One at a time and in order, per key; None: as the queue says."""
    skips: bool | None = None
    """May other jobs of its key run while it waits for its retry? None: as the queue says."""
    unique_key: str | None = None
    """At most one job of the kind and this key that has not started yet."""
    unique_arguments: bool | None = None
    """The same by the arguments, instead of a key."""
    unique_done: bool | None = None
    """Until it has ended, not only until it has started."""
    replace: str | None = None
    """Give a job of the same unique key that waits these 'arguments', or this 'time' as well."""
    expires: float | None = None
    """Seconds from when it is stored: if it has not started by then, it ends as expired."""
    expires_at: datetime | None = None
    """The same as a time."""

    @cached_property
    def text(self) -> str:
        """The terms as JSON."""
        return msgspec.json.encode(self).decode()

    @cached_property
    def plain(self) -> tuple[Any, ...] | None:
        """The values of PLAIN, as `enqueue.sql` takes them; None if other terms are set too, which it cannot take."""
        if not self._within(PLAIN):
            return None
        instant = self.at.isoformat() if self.at is not None else None
        headers = msgspec.json.encode(self.headers).decode() if self.headers is not None else None
        return (
            self.queue, self.priority, self.delay, instant, self.max_attempts, self.version, headers, self.ordered,
            self.skips,
        )  # fmt: skip

    @property
    def copyable(self) -> bool:
        """Can COPY store jobs of these terms?"""
        return self._within(COPYABLE)

    def _within(self, names: Collection[str]) -> bool:
        """Are no other terms set than these?"""
        return all(getattr(self, name) is None for name in OTHERS if name not in names)


PLAIN = ("queue", "priority", "delay", "at", "max_attempts", "version", "headers", "ordered", "skips")
"""The terms that the fast statement for one job can take: measured, JSON costs one enqueue 5 % more."""

COPYABLE = (*PLAIN, "expires", "expires_at")
"""The terms that COPY can store."""

OTHERS = tuple(name for name in Terms.__struct_fields__ if name not in PLAIN and name != "kind")


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job that is checked and encoded, and not enqueued yet. `Task.job` makes one, for `Holdfast.enqueue_many`.

    ```python
    new = send_receipt.job(12)
    await hf.enqueue_many([new])
    ```
    """

    _terms: Terms
    id: UUID
    """Its id."""
    payload: str
    """Its arguments, as JSON."""
    key: str | None = None
    """What it belongs to."""
    idempotency_key: str | None = None
    """Under which it is enqueued once."""
    brought: bool = False
    """The caller chose the id: enqueueing it twice must find the first job."""
    kept: bool = True
    """Does a completed job of this task leave a row?"""

    @property
    def unique(self) -> bool:
        """Might it, or one that it must not be beside, be there already?"""
        terms = self._terms
        return (
            self.brought
            or self.idempotency_key is not None
            or terms.unique_key is not None
            or terms.unique_arguments is not None
        )

    def __repr__(self) -> str:
        return f"<NewJob {self._terms.kind} {self.id}>"


class Stored(msgspec.Struct, frozen=True, gc=False):
    """What the database says about a job that was enqueued."""

    id: UUID
    existed: bool = False
    replaced: bool = False
