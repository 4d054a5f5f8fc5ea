"""Workflow instances with their steps and signals, as they are when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from .flow.history import shown
from .model.flow import StepStatus
from .model.moments import NEVER


@dataclass(frozen=True, slots=True)
class StepState:
    """A step of an instance, as it was when it was read.

    ```python
    for step in (await hf.instance("checkout:5")).steps:
        print(step.shown, step.status, step.attempts)
    ```
    """

    name: str
    """Its name."""
    n: int
    """0 for the first of this name, 1 for the second: steps in a loop, children of a map."""
    kind: str
    """step, sleep, wait, child, patch, value or undo."""
    status: str
    """open (it waits, or is retried), done, failed or timed_out."""
    attempts: int = 0
    """How many have begun."""
    result: Any = None
    """What it returned, decoded from JSON."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Its failed attempts, the last ten, oldest first."""
    started_at: datetime | None = None
    """When it began; None if that is not known."""
    ended_at: datetime | None = None
    """When it ended; None if it has not, or that is not known."""
    wake_at: datetime | None = None
    """When a sleep ends, or a wait times out."""
    child_id: UUID | None = None
    """The job of a child."""
    took: float | None = None
    """Seconds from its beginning to its end, if it has ended."""

    @property
    def shown(self) -> str:
        """Its name; the second of this name as 'name#2'."""
        return shown(self.name, self.n)


@dataclass(frozen=True, slots=True)
class SignalState:
    """A signal that an instance has got. Of ended instances, only those that no step has taken are kept.

    ```python
    for signal in (await hf.instance("checkout:1")).signals:
        print(signal.name, signal.payload, signal.taken_by)
    ```
    """

    n: int
    """They are numbered as they come."""
    name: str
    """Its name."""
    payload: Any
    """Decoded from JSON."""
    sent_at: datetime
    """When it was sent."""
    signal_id: str | None = None
    """With which it has one effect."""
    taken_by: str | None = None
    """The step that took it."""


@dataclass(frozen=True, slots=True)
class InstanceState:
    """A workflow instance, as it was when it was read.

    ```python
    where = await hf.instance("checkout:5")
    print(where.state, where.waits, where.wake_at)
    ```
    """

    id: str
    """The id that it was started with, or that of its job."""
    job_id: UUID
    """The id of its job."""
    workflow: str
    """The name of its workflow."""
    version: int
    """The version of the code that it began with."""
    state: str
    """queued, running, sleeping, waiting, retrying, undoing, paused, dead letter, needs attention; at the end:
    completed, failed, cancelled, expired or discarded."""
    since: datetime
    """Since when."""
    waits: tuple[str, ...]
    """On what: 'signal:NAME', 'timer:STEP', 'child:STEP', 'retry:STEP'."""
    wake_at: datetime | None
    """When it runs again at the latest; None: it waits for a signal, a child or an operator."""
    queue: str
    """Its queue."""
    runs: int
    """How often a worker has claimed it."""
    claimed_by: str | None
    """The worker that runs it, or ran it last."""
    cancel_requested_at: datetime | None
    """When it was cancelled; it ends when its steps are undone."""
    last_error: str | None
    """Its last error, or why it ended."""
    created_at: datetime
    """When it was started."""
    finished_at: datetime | None = None
    """When it ended; None if it has not."""
    parent_id: UUID | None = None
    """The job of the instance that waits for it."""
    dead_children: tuple[UUID, ...] = ()
    """Jobs that it waits for, and that are dead letters: revive or discard them."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """What it was started with. As the next four, empty in `list_instances`."""
    result: Any = None
    """What the workflow returned, decoded from JSON."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Every failed run, oldest first."""
    steps: list[StepState] = field(default_factory=list)
    """In the order in which they began."""
    signals: list[SignalState] = field(default_factory=list)
    """In the order in which they came."""

    @property
    def ended(self) -> bool:
        """Is it over?"""
        return self.finished_at is not None


class _StoredStep(msgspec.Struct):
    """A step as show.sql brings it."""

    name: str
    n: int
    ordinal: int
    kind: str
    status: str
    attempts: int = 0
    result: Any = None
    errors: list[dict[str, Any]] | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    wake_at: datetime | None = None
    child_id: UUID | None = None
    took: float | None = None
    """These two of steps that were stored with the end of their instance, without times: seconds from its beginning to
    its end, and from there to the end of the instance."""
    ago: float | None = None


class _StoredSignal(msgspec.Struct):
    n: int
    name: str
    sent_at: datetime
    payload: Any = None
    signal_id: str | None = None
    taken_by: str | None = None


_STEPS = msgspec.json.Decoder(list[_StoredStep])
_SIGNALS = msgspec.json.Decoder(list[_StoredSignal])


def instance_state(row: Mapping[str, Any]) -> InstanceState:
    """The instance of a row of list.sql or show.sql."""
    whole = "steps" in row
    return InstanceState(
        id=row["instance"] or str(row["job_id"]),
        job_id=row["job_id"],
        workflow=row["workflow"],
        version=row["version"],
        state=row["state"],
        since=row["since"],
        waits=tuple(row["waits"] or ()),
        wake_at=row["wake_at"] if row["wake_at"] is not None and row["wake_at"].year < NEVER else None,
        queue=row["queue"],
        runs=row["runs"],
        claimed_by=row["claimed_by"],
        cancel_requested_at=row["cancel_requested_at"],
        last_error=row["last_error"],
        created_at=row["created_at"],
        finished_at=row["finished_at"] if whole else None,
        parent_id=UUID(row["parent_id"]) if row["parent_id"] else None,
        dead_children=tuple(row["dead_children"] or ()),
        arguments=_arguments(row["payload"]) if whole else {},
        result=_json(row["result"]) if whole else None,
        errors=(_json(row["errors"]) or []) if whole else [],
        steps=_steps(row["steps"], row["finished_at"]) if whole else [],
        signals=_signals(row["signals"]) if whole else [],
    )


def _steps(stored: str, finished_at: datetime | None) -> list[StepState]:
    return [
        StepState(
            each.name, each.n, each.kind, each.status, each.attempts, each.result, each.errors or [],
            *_times(each, finished_at), each.wake_at, each.child_id, _took(each),
        )
        for each in sorted(_STEPS.decode(stored), key=lambda each: each.ordinal)
    ]  # fmt: skip


def _times(step: _StoredStep, finished_at: datetime | None) -> tuple[datetime | None, datetime | None]:
    """When it began, and when it ended; None if it has not, or if that is not certain."""
    if step.started_at is not None or step.took is None or step.ago is None or finished_at is None:
        return step.started_at, step.ended_at
    ended = finished_at - timedelta(seconds=step.ago)
    return ended - timedelta(seconds=step.took), ended if step.status != StepStatus.OPEN else None


def _took(step: _StoredStep) -> float | None:
    if step.took is not None:
        return step.took
    if step.started_at is None or step.ended_at is None:
        return None
    return (step.ended_at - step.started_at).total_seconds()


def _signals(stored: str) -> list[SignalState]:
    found = sorted(_SIGNALS.decode(stored), key=lambda each: each.n)
    return [SignalState(each.n, each.name, each.payload, each.sent_at, each.signal_id, each.taken_by) for each in found]


def _arguments(payload: str) -> dict[str, Any]:
    return {name: value for name, value in msgspec.json.decode(payload).items() if name != "type"}


def _json(stored: str | None) -> Any:
    return msgspec.json.decode(stored) if stored is not None else None
