"""Tracing: what surrounds everything that is sent, every attempt, step and delivery, if the application is traced.

An application has one `Tracing` or none. Without one, an enqueue costs a look at an attribute, and an attempt nothing:
its runner is another class (`worker/attempts/traced.py`). So are the journal of a workflow's steps
(`worker/flows/traced.py`) and what a relay sends with (`worker/relay/traced.py`). `contrib/otel.py` implements it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from .event import Message, Verdict
from .flow import AnyOutcome
from .job import Claim
from .outcome import Outcome

PREVIOUS = "holdfast.previous"
"""The header of a retried job that names the span of its last failed attempt. `fail_attempts.sql` writes it."""
TRACEPARENT = "traceparent"
"""Among the details of a failed attempt: its span, as W3C Trace Context writes it."""


class Sending(Protocol):
    """One call that sends jobs or an event."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What each of them carries, so that its receiver goes on with the trace."""

    def stored(self, id: UUID) -> None:
        """Take note under which id it is stored: that of an earlier one, if there was one."""


class Attempt(Protocol):
    """An attempt that runs."""

    def carry(self) -> dict[str, str]:
        """What is needed elsewhere to go on with the trace: the headers of a child, or for `Tracing.resume`."""

    def ended(self, outcome: AnyOutcome | None, cancelled: bool = False) -> AnyOutcome | None:
        """Take note of the outcome, and return it. A failure may get details, which are kept with the job.

        `cancelled`: the attempt was told that its job is cancelled; then a failure ends the job, too."""


class Step(Protocol):
    """A step of a workflow that runs."""

    def ended(self, outcome: Outcome) -> None:
        """Take note of how this attempt of the step ended: as an attempt of a job would."""


class Delivery(Protocol):
    """A message on its way to a destination. It ends once: settled, or with an unknown fate."""

    @property
    def message(self) -> Message:
        """As it goes out: an event that carries no trace begins one here."""

    def settled(self, verdict: Verdict) -> Verdict:
        """Take note of the verdict, and return it. A refusal may get details, which are kept with the delivery."""

    def unknown(self, error: BaseException | None) -> None:
        """Take note that nobody knows what became of it, and why."""


class Tracing(Protocol):
    def sending(
        self, operation: str, destination: str | None, number: int | None, id: UUID | None
    ) -> AbstractContextManager[Sending]:
        """Surround a call that sends something to a destination (None: to several). `number`: how many, if it is a call
        for many; `id`: of the only one."""

    def attempt(self, claim: Claim) -> AbstractContextManager[Attempt]:
        """Surround an attempt. It is entered and left in the task that runs it."""

    def step(self, claim: Claim, name: str, shown: str, attempt: int) -> AbstractContextManager[Step]:
        """Surround an attempt of a step, in the task that runs it. `shown`: its name, with its number if it has one."""

    def delivery(self, route: str, transport: str, message: Message) -> Delivery:
        """A message that is sent now. It is not active meanwhile: a batch sends many at once."""

    def resume(self, carried: Mapping[str, str]) -> None:
        """Go on with the trace of an attempt, in the process of its handler, until its contextvars are dropped."""
