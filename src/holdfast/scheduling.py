"""Schedules as an application declares them: a task, its arguments and options, and when."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from .errors import ConfigurationError, InvalidInput
from .job import Job
from .lazy import LazyModule
from .making import EnqueueOptions, Maker, check_options
from .model.durations import Duration
from .model.limits import check_name
from .operating import OperatorVerbs
from .tasks import Task

if TYPE_CHECKING:
    from .schedules import declared as declaring
    from .schedules import operating as schedules
    from .schedules import timing
    from .schedules.declared import Declared
    from .schedules.operating import ScheduleState
    from .schedules.policy import Missed
    from .schedules.timing import Timing
else:
    declaring = LazyModule("holdfast.schedules.declared")
    schedules = LazyModule("holdfast.schedules.operating")
    timing = LazyModule("holdfast.schedules.timing")

AnyTask = TypeVar("AnyTask", bound=Task[Any, Any])


class ScheduleOptions(typing.TypedDict, total=False):
    """The options of `Holdfast.every`, `Holdfast.cron` and `Holdfast.schedule`.

    ```python
    await hf.schedule("hourly", send_report, every="1h", args={"region": "eu"}, missed="skip", queue="reports")
    ```
    """

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
    """The queue of its jobs."""
    priority: int | None
    """0 (first) to 3 (last)."""
    max_attempts: int | None
    """Attempts until a job becomes a dead letter."""
    headers: Mapping[str, str] | None
    """Metadata, for tracing and the like."""
    expires: Duration | None
    """If a job has not started this long after its slot fired, end it as expired."""


PLAN_OPTIONS = ("missed", "grace", "jitter")
OPTION_NAMES = tuple(ScheduleOptions.__annotations__)


class Scheduled:
    """`@hf.every(…)` or `@hf.cron(…)`: gives a task one more schedule, and returns the task."""

    def __init__(self, app: ScheduleVerbs, name: str | None, timing: Timing, options: ScheduleOptions) -> None:
        self._app = app
        self._name = name
        self._timing = timing
        self._options = options

    def __call__(self, task: AnyTask) -> AnyTask:
        if not isinstance(task, Task):
            raise ConfigurationError("Put @hf.every(…) and @hf.cron(…) above @hf.task, not below it")
        declared = _configured(declare, task, self._name, self._timing, self._options)
        if declared.name in self._app._schedules:
            raise ConfigurationError(f"There is already a schedule {declared.name!r}; pass name='…' to tell them apart")
        self._app._schedules[declared.name] = declared
        return task


def scheduled(
    app: ScheduleVerbs, name: str | None, cron: object, every: Duration | None, tz: object, options: ScheduleOptions
) -> Scheduled:
    """The decorator; raises `ConfigurationError` for a timing or options that cannot work."""
    return Scheduled(app, name, _configured(timing.timing, cron, every, tz), options)


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
    if isinstance(enqueue.get("expires"), datetime):
        raise InvalidInput("expires", "of a schedule, expected a duration such as '10m', got a time")
    job = Maker(task._app.limits, task._definition, enqueue).one((), dict(args))
    return declaring.Declared.of_job(declaring.checked_plan(name or task._definition.kind, when, **planned), job)


def _configured(make: Any, *arguments: Any) -> Any:
    """What is wrong in code is a configuration error."""
    try:
        return make(*arguments)
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None


class ScheduleVerbs(OperatorVerbs):
    """What `Holdfast` inherits: declare schedules in code, add and change them at run time."""

    _schedules: dict[str, Declared]
    """Those of the code, by name."""

    def every(self, period: Duration, /, *, name: str | None = None, **options: Unpack[ScheduleOptions]) -> Scheduled:
        """Enqueue a job of a task every so often: `@hf.every("5m")` above `@hf.task`.

        Slots are the multiples of the period since 1970-01-01 00:00 UTC. `name` is the task's by default. Options:
        `args`, `missed`, `grace`, `jitter`, `key`, `queue`, `priority`, `max_attempts`, `headers`,
        `expires`; see `ScheduleOptions`.

        ```python
        @hf.every("5m", jitter="30s")
        @hf.task
        async def refresh_rates() -> None: ...
        ```
        """
        return scheduled(self, name, None, period, "UTC", options)

    def cron(
        self, expression: str, /, *, tz: str = "UTC", name: str | None = None, **options: Unpack[ScheduleOptions]
    ) -> Scheduled:
        """Enqueue a job of a task by the clock: `@hf.cron("0 7 * * 1-5", tz="Europe/Berlin")` above `@hf.task`.

        The five fields are minute, hour, day, month and weekday. Options: as those of `every`.

        ```python
        @hf.cron("0 7 * * 1-5", tz="Europe/Berlin", missed="latest", args={"region": "eu"})
        @hf.task
        async def send_report(region: str) -> None: ...
        ```
        """
        return scheduled(self, name, expression, None, tz, options)

    async def schedule(
        self,
        name: str,
        task: Task[Any, Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleState:
        """Add a schedule at run time, or replace the one of this name: `await hf.schedule("a", task, every="1h")`.

        ```python
        await hf.schedule("report for tenant 7", send_report, cron="30 6 * * *", args={"region": "us"})
        ```
        """
        await schedules.put(
            self._calls, declare(task, check_name("name", name), timing.timing(cron, every, tz), options)
        )
        return await schedules.state(self._calls, name)

    def schedule_sync(
        self,
        name: str,
        task: Task[Any, Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleState:
        """As `schedule`, for code that does not await."""
        return self._calls.wait_for(self.schedule(name, task, cron=cron, every=every, tz=tz, **options))

    async def pause_schedule(self, name: str) -> None:
        """Fire nothing until it is resumed.

        ```python
        await hf.pause_schedule("report for tenant 7")
        ```
        """
        await schedules.pause(self._calls, name)

    def pause_schedule_sync(self, name: str) -> None:
        """As `pause_schedule`, for code that does not await."""
        self._calls.wait_for(self.pause_schedule(name))

    async def resume_schedule(self, name: str) -> None:
        """Fire again, from the next slot on. Slots during the pause are not fired later.

        ```python
        await hf.resume_schedule("report for tenant 7")
        ```
        """
        await schedules.resume(self._calls, name)

    def resume_schedule_sync(self, name: str) -> None:
        """As `resume_schedule`, for code that does not await."""
        self._calls.wait_for(self.resume_schedule(name))

    async def trigger_schedule(self, name: str) -> Job:
        """Enqueue an extra job of it now, even while it is paused.

        ```python
        job = await hf.trigger_schedule("report for tenant 7")
        ```
        """
        return Job(self, await schedules.trigger(self._calls, name), False)

    def trigger_schedule_sync(self, name: str) -> Job:
        """As `trigger_schedule`, for code that does not await."""
        return self._calls.wait_for(self.trigger_schedule(name))

    async def reset_schedule(self, name: str) -> None:
        """Restart a schedule from the current time, after the database's clock was ahead. No slot gets a second job.

        ```python
        await hf.reset_schedule("report for tenant 7")
        ```
        """
        await schedules.reset(self._calls, name)

    def reset_schedule_sync(self, name: str) -> None:
        """As `reset_schedule`, for code that does not await."""
        self._calls.wait_for(self.reset_schedule(name))

    async def list_schedules(self) -> list[ScheduleState]:
        """Every schedule in the table, by name: those of the code of any worker, and those added at run time.

        ```python
        for schedule in await hf.list_schedules():
            print(schedule.name, schedule.when, schedule.next_slots)
        ```
        """
        return await schedules.states(self._calls)

    def list_schedules_sync(self) -> list[ScheduleState]:
        """As `list_schedules`, for code that does not await."""
        return self._calls.wait_for(self.list_schedules())

    async def unschedule(self, name: str) -> None:
        """Remove a schedule from the table. One that is still in the code of a worker comes back.

        ```python
        await hf.unschedule("report for tenant 7")
        ```
        """
        await schedules.remove(self._calls, name)

    def unschedule_sync(self, name: str) -> None:
        """As `unschedule`, for code that does not await."""
        self._calls.wait_for(self.unschedule(name))
