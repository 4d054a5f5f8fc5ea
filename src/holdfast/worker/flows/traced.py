"""Run the steps of a traced workflow, each inside a span of its own.

What is replayed does not come here, so it makes no span. Neither do waits, which hold no worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...errors import LeaseLost
from ...flow.machine import Journal, NotCommitted, StepCall
from ...flow.steps import failure_of, reason
from ...model.durations import seconds
from ...model.flow import Standing, StepRecord
from ...model.job import Claim
from ...model.outcome import DONE, Ended, Fail, Final, HandedBack, Lost, Outcome, Retry, Snooze, Snoozed
from ...model.tracing import Tracing
from ..attempts.deciding import ended_transaction
from .problems import Deadlocked, EndedItself, NoTransaction


class TracedJournal:
    """A `flow.machine.Journal` around another one."""

    def __init__(self, journal: Journal, claim: Claim, tracing: Tracing) -> None:
        self._journal = journal
        self._claim = claim
        self._tracing = tracing

    @property
    def draining(self) -> bool:
        return self._journal.draining

    @property
    def cancelled(self) -> bool:
        return self._journal.cancelled

    def record(self, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        return self._journal.record(records, alone)

    async def call(self, call: StepCall) -> Any:
        return await self._traced(call, self._journal.call(call))

    async def cancel_children(self) -> None:
        await self._journal.cancel_children()

    async def commit(self, call: StepCall, earlier: Sequence[StepRecord], done: Callable[[Any], StepRecord]) -> Any:
        """The span is around the whole transaction: its commit is a part of the step."""
        return await self._traced(call, self._journal.commit(call, earlier, done))

    async def _traced(self, call: StepCall, running: Awaitable[Any]) -> Any:
        with self._tracing.step(self._claim, call.name, call.shown, call.attempt) as step:
            try:
                value = await running
            except BaseException as error:
                if (outcome := _raised(call, error)) is not None:
                    step.ended(outcome)
                raise
            step.ended(_returned(call, value))
            return value


def _returned(call: StepCall, value: Any) -> Outcome:
    match value:
        case Snooze():
            return Snoozed(seconds(value.delay))
        case Fail():
            return Ended(Final.FAILED, reason(value))
        case Retry():
            return failure_of(call, value)
        case _:
            return DONE


def _raised(call: StepCall, error: BaseException) -> Outcome | None:
    """None: it was broken off, and how it ended is not known."""
    match error:
        case NotCommitted():
            return _returned(call, error.value)
        case Snooze() | Fail():
            return _returned(call, error)
        case LeaseLost():
            return Lost()
        case NoTransaction() | Deadlocked():
            return HandedBack()
        case EndedItself():
            return ended_transaction()
        case asyncio.CancelledError() if (task := asyncio.current_task()) is not None and task.cancelling():
            return None  # the worker ends
        case GeneratorExit() | KeyboardInterrupt():
            return None
        case _:
            return failure_of(call, error)
