"""A job as its producer and its worker know it."""

from __future__ import annotations

from uuid import UUID

import msgspec


class Job(msgspec.Struct, frozen=True):
    """What `enqueue` returns."""

    id: UUID
    existed: bool = False
    """True when this idempotency key or id had been enqueued before: nothing was added."""


class Claim(msgspec.Struct, eq=False, gc=False):
    """One claimed row: the work, and the fence under which everything about it is written."""

    id: UUID
    generation: int
    fence: int
    attempt: int
    max_attempts: int
    kind: str
    version: int
    payload: str
    queue: str
    key: str
    headers: str | None
    idempotency_key: str | None
    cancelled: bool = False
    """Cancelled while an earlier attempt ran: to be abandoned, not run."""
    ordered: bool = False
    """One at a time of its key: its end may let another begin."""
    slot: int = -1
    """In the ledger."""

    def __repr__(self) -> str:
        return f"<Claim {self.kind} {self.id} generation {self.generation} attempt {self.attempt}>"
