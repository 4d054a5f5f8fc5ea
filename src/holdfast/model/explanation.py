"""Why a job does not run, as values: reasons, and what they are the reasons of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job does not run, or what happens to it.

    ```python
    explanation = await hf.explain(jobs[0].id)
    for reason in explanation.reasons:
        print(reason.code, reason.sentence, reason.remedy)
    ```
    """

    code: str
    """One word for programs, such as 'paused' or 'no_worker'; docs/operating.md lists them."""
    sentence: str
    """The same in words, with names and times."""
    remedy: str | None = None
    """What to do about it; None if there is nothing to do."""
    until: datetime | None = None
    """When it ends by itself; None if it does not, or if nobody can know."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job does not run, as it was when it was read.

    ```python
    explanation = await hf.explain(jobs[0].id)
    print(explanation.answer.sentence)
    ```
    """

    asked: str
    """What was asked for: the id of a job, or of a workflow instance."""
    id: UUID | None
    """The id of the job; None if there is none."""
    at: datetime
    """When this was, by the clock of the database."""
    reasons: tuple[Reason, ...]
    """The answer, then what holds as well. There is always one."""
    kind: str | None = None
    """The name of its task."""
    queue: str | None = None
    """Its queue."""
    status: str | None = None
    """As `JobState.status`."""
    head: Explanation | None = None
    """Of an ordered job: the job of its key that must end first, explained in turn."""

    @property
    def answer(self) -> Reason:
        """The first reason: why it does not run, or that it does."""
        return self.reasons[0]

    @property
    def next(self) -> str:
        """The answer in one line: its sentence, and what to do about it."""
        return "; ".join(filter(None, (self.answer.sentence, self.answer.remedy)))
