"""What happens inside a worker, told to whoever subscribed: logs and counters, later metrics and traces.

Who reports calls the subscribers that want to hear of it, one call per batch where the work is done in batches:

    for tell in occurrences.claimed:
        tell(claims)

An occurrence that nobody subscribed to costs an empty loop. Subscribers are called on the loop that does the work, so
they must be quick, and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from .job import Claim, Holding
from .outcome import AttemptFailed, Outcome
from .report import Report


@dataclass(frozen=True, slots=True)
class Swept:
    """A row whose lease ran out, and what became of it."""

    id: UUID
    worker: str
    generation: int
    status: str


class Subscriber:
    """Override what you want to hear of."""

    def claimed(self, claims: Sequence[Claim]) -> None:
        """These rows were claimed."""

    def started(self, claim: Claim) -> None:
        """An attempt began."""

    def timed_out(self, claim: Claim) -> None:
        """An attempt ran over its time, and was ended."""

    def failed(self, claim: Claim, failure: AttemptFailed) -> None:
        """An attempt failed; its ending is not written yet."""

    def ended(self, endings: Sequence[tuple[Claim, Outcome]], report: Report[Claim]) -> None:
        """The endings of these attempts are written, but for those that the report calls lost."""

    def ending_lost(self, claim: Claim) -> None:
        """The ending of this attempt was not written: the row is another's, or might be."""

    def lease_lost(self, held: Holding) -> None:
        """A lease could not be renewed in time, or somebody else has the row."""

    def claim_failed(self, error: Exception, failures: int) -> None:
        """A claim failed, for so many times in a row; it is tried again."""

    def swept(self, rows: Sequence[Swept]) -> None:
        """These rows had lost their owners."""

    def session_ended(self, pid: int, name: str) -> None:
        """The session of an owner that had lost its lease was ended."""

    def called_dead(self, worker: str, silence: float) -> None:
        """A worker has not been heard of for so many seconds."""


class Occurrences:
    """By kind, whom to tell."""

    def __init__(self, *subscribers: Subscriber) -> None:
        self.claimed: Sequence[Callable[[Sequence[Claim]], None]] = _heard(subscribers, "claimed")
        self.started: Sequence[Callable[[Claim], None]] = _heard(subscribers, "started")
        self.timed_out: Sequence[Callable[[Claim], None]] = _heard(subscribers, "timed_out")
        self.failed: Sequence[Callable[[Claim, AttemptFailed], None]] = _heard(subscribers, "failed")
        self.ended: Sequence[Callable[[Sequence[tuple[Claim, Outcome]], Report[Claim]], None]] = _heard(
            subscribers, "ended"
        )
        self.ending_lost: Sequence[Callable[[Claim], None]] = _heard(subscribers, "ending_lost")
        self.lease_lost: Sequence[Callable[[Holding], None]] = _heard(subscribers, "lease_lost")
        self.claim_failed: Sequence[Callable[[Exception, int], None]] = _heard(subscribers, "claim_failed")
        self.swept: Sequence[Callable[[Sequence[Swept]], None]] = _heard(subscribers, "swept")
        self.session_ended: Sequence[Callable[[int, str], None]] = _heard(subscribers, "session_ended")
        self.called_dead: Sequence[Callable[[str, float], None]] = _heard(subscribers, "called_dead")


def _heard(subscribers: Sequence[Subscriber], name: str) -> Any:
    """The methods of those that want to hear of it."""
    silent = getattr(Subscriber, name)
    return tuple(getattr(each, name) for each in subscribers if getattr(type(each), name) is not silent)
