"""Schedules as an application declares them: a task, its arguments and options, and when."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import ConfigurationError, InvalidInput
from .making import EnqueueOptions, Maker, check_options
from .model.durations import Duration
from .schedules.declared import Declared, checked_plan
from .schedules.policy import Missed
from .schedules.timing import Timing, timing
from .tasks import Task

if TYPE_CHECKING:
    from .app import Holdfast

AnyTask = TypeVar("AnyTask", bound=Task[Any, Any])


class ScheduleOptions(typing.TypedDict, total=False):
    """The options of `Holdfast.every`, `Holdfast.cron` and `Holdfast.schedule`."""

    args: Mapping[str, Any]
    """The arguments of its jobs, by name."""
    missed: Missed
    """What happens to slots that nobody fired in time: 'skip' them, fire the 'latest', or fire 'all'."""
    grace: Duration
    """How late a slot may be before it counts as missed; 30 s."""
    jitter: Duration
    """Fire each slot later by a part of this, always the same part for the same slot."""
    key: str | None
    """What its jobs belong to; order holds within a key."""
    queue: str | None
    priority: int | None
    max_attempts: int | None
    headers: Mapping[str, str] | None


PLAN_OPTIONS = ("missed", "grace", "jitter")
OPTION_NAMES = tuple(ScheduleOptions.__annotations__)


class Scheduled:
    """`@hf.every(…)` or `@hf.cron(…)`: gives a task one more schedule, and returns the task."""

    def __init__(self, app: Holdfast, name: str | None, timing: Timing, options: ScheduleOptions) -> None:
        self._app = app
        self._name = name
        self._timing = timing
        self._options = options

    def __call__(self, task: AnyTask) -> AnyTask:
        if not isinstance(task, Task):
            raise ConfigurationError("Put @hf.every(…) and @hf.cron(…) above @hf.task, not below it")
        declared = _configured(declare, task, self._name, self._timing, self._options)
        if declared.name in self._app.schedules:
            raise ConfigurationError(f"There is already a schedule {declared.name!r}; pass name='…' to tell them apart")
        self._app.schedules[declared.name] = declared
        return task


def scheduled(
    app: Holdfast, name: str | None, cron: object, every: Duration | None, tz: object, options: ScheduleOptions
) -> Scheduled:
    """The decorator; raises `ConfigurationError` for a timing or options that cannot work."""
    return Scheduled(app, name, _configured(timing, cron, every, tz), options)


def declare(task: Task[Any, Any], name: str | None, when: Timing, options: ScheduleOptions) -> Declared:
    """The schedule of this task. Everything is checked as if a job were enqueued."""
    if unknown := sorted(options.keys() - set(OPTION_NAMES)):
        raise InvalidInput(unknown[0], f"is not an option of a schedule; it takes {', '.join(OPTION_NAMES)}")
    plain: dict[str, Any] = dict(options)
    args = plain.pop("args", {})
    if not isinstance(args, Mapping):
        raise InvalidInput(
            "args", f"expected arguments by name, such as {{'region': 'eu'}}, got a {type(args).__name__}"
        )
    planned = {key: plain.pop(key) for key in PLAN_OPTIONS if key in plain}
    check_options("a schedule", plain)
    for key in ("delay", "at", "id", "idempotency_key"):
        if task._options.get(key) is not None:
            raise InvalidInput(key, "is not for jobs of a schedule; its slots say when they are due")
    enqueue = typing.cast(EnqueueOptions, {**task._options, **plain})
    job = Maker(task._app.limits, task.definition, enqueue).one((), dict(args))
    return Declared.of_job(checked_plan(name or task.definition.kind, when, **planned), job)


def _configured(make: Any, *arguments: Any) -> Any:
    """What is wrong in code is a configuration error."""
    try:
        return make(*arguments)
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None
