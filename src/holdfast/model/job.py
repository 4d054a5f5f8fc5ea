"""A job as its producer and its worker know it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Job:
    """What `enqueue` returns."""

    id: UUID
    existed: bool = False
    """True when this idempotency key or id had been enqueued before: nothing was added."""


class Claim:
    """One claimed row: the work, and the fence under which everything about it is written."""

    __slots__ = (
        "attempt", "cancelled", "fence", "generation", "headers", "id", "idempotency_key", "key", "kind",
        "max_attempts", "ordered", "payload", "queue", "slot", "version",
    )  # fmt: skip

    def __init__(
        self,
        id: UUID,
        generation: int,
        fence: int,
        attempt: int,
        max_attempts: int,
        kind: str,
        version: int,
        payload: str,
        queue: str,
        key: str,
        headers: str | None,
        idempotency_key: str | None,
        cancelled: bool = False,
        ordered: bool = False,
    ) -> None:
        self.id = id
        self.generation = generation
        self.fence = fence
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.kind = kind
        self.version = version
        self.payload = payload
        self.queue = queue
        self.key = key
        self.headers = headers
        self.idempotency_key = idempotency_key
        self.cancelled = cancelled
        """Cancelled while an earlier attempt ran: to be abandoned, not run."""
        self.ordered = ordered
        """One at a time of its key: its end may let another begin."""
        self.slot = -1

    def __repr__(self) -> str:
        return f"<Claim {self.kind} {self.id} generation {self.generation} attempt {self.attempt}>"
