"""An instance in memory: its rows, and a worker that runs it. What the database does for real, in a few lines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec

from holdfast.context import Context
from holdfast.definitions import Definition, define
from holdfast.flow.driving import RunEnd, run
from holdfast.flow.flow import Flow
from holdfast.flow.history import Past
from holdfast.flow.machine import Machine, Mode, StepCall
from holdfast.model.flow import (
    FlowEnd,
    History,
    Parked,
    RecordedStep,
    Signal,
    Standing,
    StepKind,
    StepRecord,
    StepStatus,
)
from holdfast.model.job import Claim
from holdfast.model.outcome import AttemptFailed, Completed


class Instance:
    """The rows of one instance, and its clock."""

    def __init__(self, function: Callable[..., Any], undo_on_failure: bool = False, **arguments: Any) -> None:
        self._undo_on_failure = undo_on_failure
        self.definition = self._define(function)
        self.arguments = arguments
        self.id: UUID = uuid4()
        self.steps: dict[tuple[str, int], RecordedStep] = {}
        self.signals: list[Signal] = []
        self.taken: set[int] = set()
        self.mail = 0
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.generation = 0
        self.cancelled = False
        self.paused = False
        self.draining = False
        self.noticed = False
        """Has the worker heard that it was cancelled?"""
        self.cancelled_children: list[str] = []
        self.commits = 0
        self.called: list[str] = []
        """The steps whose functions were called, in order."""
        self.journal_raises: BaseException | None = None
        """When steps are recorded."""
        self.answer_lost = False
        """Are they stored before that is raised?"""
        self.writes_until_then = 0
        self.on_call: Callable[[StepCall], None] = lambda call: None
        """Called before a step."""

    def _define(self, function: Callable[..., Any]) -> Definition:
        return define(function, name="flow", flow=Flow, undo_on_failure=self._undo_on_failure)

    # What others do

    def signal(self, name: str, payload: Any = None) -> None:
        self.mail += 1
        self.signals.append(Signal(self.mail, name, msgspec.Raw(msgspec.json.encode(payload))))

    def end_child(self, name: str, n: int = 0, result: Any = None, error: str | None = None) -> None:
        step = self.steps[name, n]
        step.status = StepStatus.DONE if error is None else StepStatus.FAILED
        step.result, step.error = msgspec.Raw(msgspec.json.encode(result)), error
        self.mail += 1

    # The worker

    async def run(self, function: Callable[..., Any] | None = None, mode: Mode | None = None) -> RunEnd:
        """Claim it and run it until it ends or parks; the records of the ending are stored."""
        definition = self._define(function) if function is not None else self.definition
        self.generation += 1
        claim = Claim(
            "w", self.id, self.generation, 1, 1, 5, "flow", 1, "{}", "default", "k", None, None, self.cancelled
        )  # fmt: skip
        past = Past(self.history())
        undoing = self.cancelled or bool(past.undone)
        machine = Machine(definition, past, Worker(self, claim), mode or (Mode.UNDO if undoing else Mode.RUN))
        end = await run(machine, definition.function(Flow(machine, claim), **self.arguments), undo_as="cancelled")
        if isinstance(end, (Parked, FlowEnd)) and mode is None:
            self.store(end.records)
        return end

    async def result(self, function: Callable[..., Any] | None = None) -> Any:
        """Run it to its end, and return its result."""
        end = await self.run(function)
        assert isinstance(end, FlowEnd) and isinstance(end.end, Completed), end
        return msgspec.json.decode(end.end.result or "null")

    async def parked(self, function: Callable[..., Any] | None = None) -> Parked:
        """Run it until it waits."""
        end = await self.run(function)
        assert isinstance(end, Parked), end
        return end

    async def stopped(self, function: Callable[..., Any] | None = None) -> AttemptFailed:
        """Run it until it is a dead letter."""
        end = await self.run(function)
        assert isinstance(end, AttemptFailed) and end.give_up, end
        return end

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def history(self) -> History:
        steps = [msgspec.structs.replace(step, due=self._due(step)) for step in self.steps.values()]
        unread = [signal for signal in self.signals if signal.n not in self.taken]
        return History(steps, unread, self.mail, self.paused)

    def _due(self, step: RecordedStep) -> bool:
        return step.wake_at is not None and step.wake_at <= self.now

    def store(self, records: Sequence[StepRecord]) -> None:
        if records:
            self.commits += 1
        for record in records:
            before = self.steps.get((record.name, record.n))
            assert before is None or before.status == StepStatus.OPEN, f"{record.name} is recorded twice"
            wake_at = before.wake_at if before is not None else None
            if record.delay is not None:
                wake_at = self.now + timedelta(seconds=record.delay)
            if record.at is not None:
                wake_at = record.at
            error = None
            if record.error is not None:
                plain = msgspec.json.decode(record.error)
                error = ": ".join(part for part in (plain["error"], plain["message"]) if part)
            self.steps[record.name, record.n] = RecordedStep(
                record.name, record.n, record.ordinal, record.kind, record.status, record.attempts,
                msgspec.Raw((record.result or "null").encode()), record.digest, wake_at,
                child_id=record.child.id if record.child is not None else None, error=error,
            )  # fmt: skip
            if record.signal is not None:
                assert record.signal not in self.taken
                self.taken.add(record.signal)


class Worker:
    """A `Journal`."""

    def __init__(self, instance: Instance, claim: Claim) -> None:
        self._instance = instance
        self._claim = claim

    @property
    def draining(self) -> bool:
        return self._instance.draining

    @property
    def cancelled(self) -> bool:
        return self._instance.noticed

    def record(self, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        return self._record(records)

    async def _record(self, records: Sequence[StepRecord]) -> Standing:
        await asyncio.sleep(0)
        self._store(records)
        return self._standing

    def _store(self, records: Sequence[StepRecord]) -> None:
        raised = self._instance.journal_raises
        if self._instance.writes_until_then:
            self._instance.writes_until_then -= 1
            raised = None
        if raised is None or self._instance.answer_lost:
            self._instance.store(records)
        if raised is not None:
            raise raised

    @property
    def _standing(self) -> Standing:
        return Standing(self._instance.cancelled, self._instance.paused)

    async def call(self, call: StepCall) -> Any:
        self._instance.called.append(call.shown)
        self._instance.on_call(call)
        context: tuple[Any, ...] = (Context(self._claim, None),) if call.function.wants_context else ()  # type: ignore[arg-type]
        value = call.function.call(*context, *call.arguments)
        return await value if inspect.isawaitable(value) else value

    async def cancel_children(self) -> None:
        for step in self._instance.steps.values():
            if step.kind == StepKind.CHILD and step.status == StepStatus.OPEN:
                self._instance.cancelled_children.append(step.name)

    async def commit(self, call: StepCall, earlier: Sequence[StepRecord], done: Callable[[Any], StepRecord]) -> Any:
        record = done(await self.call(call))
        self._store([*earlier, record])
        return self._standing
