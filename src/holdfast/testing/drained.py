"""What a drain ran, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, assert_never
from uuid import UUID

from ..errors import HoldfastError
from ..model.flow import AnyOutcome, FlowEnd, Parked
from ..model.job import Claim
from ..model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Snoozed
from ..model.report import Report

if TYPE_CHECKING:
    from ..tasks import Task

Ending = Literal[
    "completed", "failed", "cancelled", "expired", "retried", "dead_letter", "snoozed", "handed_back", "lost", "parked",
    "died",
]  # fmt: skip


_FINAL: dict[Final, Ending] = {Final.FAILED: "failed", Final.CANCELLED: "cancelled", Final.EXPIRED: "expired"}
"""Not 'discarded': that is an operator's, and not the end of an attempt."""


class DrainLimit(HoldfastError):
    """Jobs were still due after 1,000 attempts. Most likely each job enqueues the next one."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt of a drain.

    ```python
    print([(ran.kind, ran.attempt, ran.ending) for ran in drained])
    ```
    """

    id: UUID
    """Of the job."""
    kind: str
    """The name of its task."""
    queue: str
    """Its queue."""
    key: str
    """What it belongs to."""
    attempt: int
    """1 for the first."""
    ending: Ending
    """What became of the job: 'completed', 'failed' (`Fail`), 'cancelled', 'expired', 'retried' (it waits for its next
    attempt), 'dead_letter', 'snoozed', 'handed_back', or 'lost' (the handler raised `LeaseLost`). Of workflows also
    'parked' (it waits), or 'died' (`die_at`)."""
    result: Any = None
    """What its handler returned, decoded from JSON."""
    error: str | None = None
    """Why it did not complete."""
    waits: tuple[str, ...] = ()
    """Of a workflow that is parked: for what, such as 'signal:shipped', 'timer:grace', 'retry:charge'."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain ran, in this order. Its length is the number of attempts.

    ```python
    print(len(drained), "ran,", drained.left, "wait")
    ```
    """

    jobs: tuple[Ran, ...]
    """The attempts."""
    left: int
    """How many jobs wait: for their time or their retry, for a paused queue, behind the head of their key, or for code
    that this application does not have."""

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Ran]:
        return iter(self.jobs)

    def of(self, task: Task[Any, Any]) -> list[Ran]:
        """Return the attempts of this task.

        ```python
        receipts = drained.of(send_receipt)
        ```
        """
        return [job for job in self.jobs if job.kind == task._definition.kind]

    def ended(self, ending: Ending) -> list[Ran]:
        """Return the attempts that ended in this way: `drained.ended("dead_letter")`.

        ```python
        assert drained.ended("dead_letter") == []
        ```
        """
        return [job for job in self.jobs if job.ending == ending]


def ending_of(outcome: AnyOutcome, report: Report[Claim]) -> Ending:
    """What became of the job of a report about one attempt."""
    if report.lost:
        return "lost"
    match outcome.end if isinstance(outcome, FlowEnd) else outcome:
        case Parked():
            return "parked"
        case _ if report.dead:
            return "dead_letter"
        case Ended(status=status):
            return _FINAL[status]
        case _ if report.cancelled:
            return "cancelled"
        case AttemptFailed():
            return "retried"
        case Snoozed():
            return "snoozed"
        case HandedBack():
            return "handed_back"
        case Completed():
            return "completed"
        case Lost():
            return "lost"
        case never:
            assert_never(never)
