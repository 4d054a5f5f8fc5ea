"""A job as its worker knows it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol
from uuid import UUID

import msgspec


class Hold(NamedTuple):
    """That a worker holds a job: everything that it writes about the job is written under this, or not at all."""

    worker: str
    id: UUID
    generation: int
    """Of the row: one up at every claim."""


class Holding(Protocol):
    """Whatever is a hold, or has one: a claim."""

    @property
    def worker(self) -> str: ...

    @property
    def id(self) -> UUID: ...

    @property
    def generation(self) -> int: ...


class Claim(msgspec.Struct, eq=False, gc=False):
    """One claimed row: the work, and the hold on it."""

    worker: str
    id: UUID
    generation: int
    fence: int
    """What handlers pass on: rises with every claim of any job."""
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
    """Cancelled while an earlier attempt ran: it is not to be run."""
    expires_in: float | None = None
    """Seconds left when it was claimed, by the database's clock; 0 or less: it has expired, and is not to be run."""
    ordered: bool = False
    """One at a time of its key: its end may let another begin."""
    waited: float = 0.0
    """Seconds for which it was due when it was claimed, by the database's clock."""
    slot: int = -1
    """In the ledger."""
    sent: int = 0
    """When its claim was sent, by the clock of the ledger: its lease lasts from then on at least. 0: nobody said."""
    start_by: int = 0
    """If it can expire: when, by the clock of the ledger, and never later than by the database's."""
    took: float = -1.0
    """Seconds that its attempt ran; negative: it has not ended, or did not run."""
    counted_in: Any = None
    """Where the worker counts what becomes of it."""
    carried: dict[str, str] | None = None
    """If it is traced: what the process of its handler, or its children, need to go on with the trace."""

    def __repr__(self) -> str:
        return f"<Claim {self.kind} {self.id} generation {self.generation} attempt {self.attempt}>"
