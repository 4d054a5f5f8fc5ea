"""Holdfast, the front door: tasks, enqueueing, workers, and operators' verbs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from .calls import Calls
from .context import Context, TxContext
from .db import callers
from .db.callers import AsyncConnection, Caller
from .db.database import Database
from .db.urls import resolve_pooler, resolve_url
from .definitions import Definition, OnFailure, Runs, TaskOptions, define, skips
from .errors import ConfigurationError, NotFound
from .inbox import operating as jobs
from .job import Job
from .making import Batch
from .middleware import Layer, Only, check_coverage, check_lifespan, surround
from .model.durations import Duration, seconds
from .model.limits import DEFAULT_LIMITS, Limits, check_flag, check_name, check_schema
from .model.terms import NewJob
from .ownership import members
from .queues import operating as queues
from .schedules import operating as schedules
from .schedules.declared import Declared
from .schedules.operating import ScheduleState
from .schedules.timing import timing
from .scheduling import Scheduled, ScheduleOptions, declare, scheduled
from .schema import migrate
from .tasks import Task, TaskDecorator, enqueue_on_async, enqueue_on_sync
from .views.questions import JobFilter, JobState, find_arguments, job_state
from .worker.settings import WorkerOptions, WorkerSettings

if TYPE_CHECKING:
    from .tasks import ContextTask, PlainTask, TxTask
    from .worker.embedded import EmbeddedWorker

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Callable[[Any, Any], Any]")


class Holdfast:
    """One installation of Holdfast: a database, a schema in it, and the tasks of this application.

    `url` defaults to HOLDFAST_DATABASE_URL, then DATABASE_URL, then libpq's PG* variables; `schema` to HOLDFAST_SCHEMA,
    then "holdfast". It connects when it is first used. Set `pooler` if a transaction pooler, such as PgBouncer, is in
    between; it defaults to HOLDFAST_POOLER.

    `lifespan` is called with this Holdfast and makes an async context manager, which surrounds every worker. What it
    yields is `ctx.state`. `lifespan_sync` makes a plain one, for each process of `process=True`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        schema: str | None = None,
        pooler: bool | None = None,
        limits: Limits = DEFAULT_LIMITS,
        lifespan: Callable[[Holdfast], AbstractAsyncContextManager[Any]] | None = None,
        lifespan_sync: Callable[[Holdfast], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._url = url
        self._schema = check_schema((os.environ.get("HOLDFAST_SCHEMA") or "holdfast") if schema is None else schema)
        self._pooler = pooler
        self._resolved: Database | None = None
        self.limits = limits
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules: dict[str, Declared] = {}
        """Those of the code, by name."""
        self._calls = Calls(lambda: self._database)
        self._lifespan = check_lifespan("lifespan", "asynccontextmanager", lifespan)
        self._lifespan_sync = check_lifespan("lifespan_sync", "contextmanager", lifespan_sync)
        self._middleware: list[Layer] = []

    @property
    def _database(self) -> Database:
        """Read from the environment on first use, so that importing an application needs no database."""
        if self._resolved is None:
            self._resolved = Database(resolve_url(self._url), self._schema, resolve_pooler(self._pooler))
        return self._resolved

    # Declaring

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[TxContext, P], R], /) -> TxTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(self, **options: Unpack[TaskOptions]) -> TaskDecorator: ...

    def task(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]  # it does take signature 4
        """Register a function, sync or async, as a task: `@hf.task` or `@hf.task(queue="mail", timeout="30s")`.

        Options: `name`, `queue`, `max_attempts`, `priority`, `timeout`, `version`, `ordered`, `on_failure`, `process`,
        `retry`, `max_snoozes`, `unique_arguments`, `unique_done`, `key`; see `TaskOptions`.
        """
        if unknown := sorted(options.keys() - set(TaskOptions.__annotations__)):
            raise ConfigurationError(
                f"{unknown[0]}: is not an option of a task; expected one of {', '.join(TaskOptions.__annotations__)}"
            )

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            definition = define(function, **options)
            if definition.kind in self.tasks:
                raise ConfigurationError(
                    f"There is already a task {definition.kind!r}; pass name='…' to tell them apart"
                )
            task: Task[Any, Any] = Task(self, definition)
            self.tasks[definition.kind] = task
            return task

        return register if function is None else register(function)

    @overload
    def middleware(self, function: M, /) -> M: ...
    @overload
    def middleware(self, *, only: Only | None = None) -> Callable[[M], M]: ...

    def middleware(self, function: Any = None, /, *, only: Only | None = None) -> Any:  # type: ignore[misc]  # it does
        """Run this around every attempt: `@hf.middleware async def timed(ctx, call_next): …`.

        An async function runs around async handlers, any other around handlers in threads and processes. The first one
        is the outermost. `only="async"` or `"sync"` says that the other handlers are left out on purpose.
        """

        def register(function: M) -> M:
            self._middleware.append(Layer.of(function, only))
            return function

        return register if function is None else register(function)

    def _surrounded(self) -> dict[str, Definition]:
        """The tasks by kind, with their middleware; those in processes get it there."""
        definitions = {kind: task.definition for kind, task in self.tasks.items()}
        check_coverage(self._middleware, definitions.values())
        return {
            kind: each if each.runs is Runs.IN_PROCESS else surround(each, self._middleware)
            for kind, each in definitions.items()
        }

    # Enqueueing jobs of several tasks

    async def enqueue_many(self, jobs: Iterable[NewJob], *, copy: bool | None = None) -> list[Job]:
        """Enqueue jobs of different tasks and options, all or none: `[task.job(…), other.options(key="a").job(…)]`."""
        stored = await self._calls.enqueue_many(Batch.of(jobs), copy)
        return [Job(self, each.id, each.existed, each.replaced) for each in stored]

    def enqueue_many_sync(self, jobs: Iterable[NewJob], *, copy: bool | None = None) -> list[Job]:
        """As `enqueue_many`, for code that does not await."""
        return self._calls.wait_for(self.enqueue_many(jobs, copy=copy))

    @overload
    def on(self, connection: AsyncConnection, /) -> AllOnAsync: ...  # type: ignore[overload-overlap]
    @overload
    def on(self, connection: object, /) -> AllOnSync: ...

    def on(self, connection: Any, /) -> Any:
        """Enqueue on your connection, in its open transaction: `await hf.on(connection).enqueue_many([…])`."""
        caller = callers.caller(connection)
        return (AllOnAsync if caller.awaited else AllOnSync)(self, caller)

    # Working

    @asynccontextmanager
    async def worker(self, **options: Unpack[WorkerOptions]) -> AsyncIterator[EmbeddedWorker]:
        """Run a worker inside this process: `async with hf.worker(concurrency=10):`.

        Options: `queues`, `concurrency`, `lease`, `drain`, `grace`, `housekeeping`, `heartbeat`, `poll`, `notify`; see
        `WorkerSettings`. It serves the queues of the registered tasks, or those in `queues`. When the block ends, the
        worker drains: running jobs have `drain` to finish, the rest is handed back.

        Leases are renewed from a thread, which is weaker than the supervisor of `holdfast worker`: a handler that
        holds the GIL for longer than the lease loses it.
        """
        from .loading import served
        from .worker.embedded import EmbeddedWorker

        settings = WorkerSettings.of(**options)
        worker = EmbeddedWorker(served(self, settings.queues), settings)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    # Operating

    async def migrate(self) -> list[str]:
        """Bring the schema to this release. Returns the names of what was applied."""
        return [applied.name for applied in await migrate.migrate(self._database)]

    def migrate_sync(self) -> list[str]:
        """As `migrate`, for code that does not await."""
        return self._calls.wait_for(self.migrate())

    async def job(self, id: UUID) -> JobState:
        """Where a job is now, and its result if it has completed. Ended jobs are kept for `archive_days`."""
        rows = await self._calls.run("views", "job", id)
        if not rows:
            raise NotFound(
                f"There is no job {id} in schema {self._database.schema}; ended jobs are kept for archive_days"
            )
        return job_state(dict(rows[0]))

    def job_sync(self, id: UUID) -> JobState:
        """As `job`, for code that does not await."""
        return self._calls.wait_for(self.job(id))

    async def result(self, id: UUID, timeout: Duration | None = None) -> Any:
        """Wait until a job ends, and return what its handler returned, decoded from JSON.

        Raises `JobFailed` if it did not complete, or is a dead letter; TimeoutError if it has not ended in time (None:
        wait as long as it takes); `NotFound` if its enqueue has not committed.
        """
        return await self._calls.result(id, seconds(timeout, "timeout") if timeout is not None else None)

    def result_sync(self, id: UUID, timeout: Duration | None = None) -> Any:
        """As `result`, for code that does not await."""
        return self._calls.wait_for(self.result(id, timeout))

    async def cancel(self, id: UUID, reason: str = "cancelled") -> str:
        """Cancel a job. Returns 'cancelled' if it ended at once, 'processing' if its handler is being told to stop.

        Raises `NotFound` if it has ended, and `InvalidInput` if it is a dead letter: use `discard` for those.
        """
        return await jobs.cancel(self._calls, id, reason)

    def cancel_sync(self, id: UUID, reason: str = "cancelled") -> str:
        """As `cancel`, for code that does not await."""
        return self._calls.wait_for(self.cancel(id, reason))

    async def cancel_many(self, ids: Iterable[UUID], reason: str = "cancelled") -> dict[UUID, str]:
        """Cancel jobs. Returns the status of each that was cancelled, as `cancel` does.

        What is not in it had ended, or is a dead letter. Takes any number, in batches of 1,000; not all or none.
        """
        return await jobs.cancel_many(self._calls, ids, reason)

    def cancel_many_sync(self, ids: Iterable[UUID], reason: str = "cancelled") -> dict[UUID, str]:
        """As `cancel_many`, for code that does not await."""
        return self._calls.wait_for(self.cancel_many(ids, reason))

    async def run_now(self, ids: Iterable[UUID]) -> list[UUID]:
        """Make jobs due now that wait for their time or their retry. Returns their ids."""
        return await jobs.run_now(self._calls, ids)

    def run_now_sync(self, ids: Iterable[UUID]) -> list[UUID]:
        """As `run_now`, for code that does not await."""
        return self._calls.wait_for(self.run_now(ids))

    async def discard(self, ids: Iterable[UUID]) -> list[UUID]:
        """Move dead letters to the archive as discarded, with their errors. Returns the ids that were discarded."""
        return await jobs.discard(self._calls, ids)

    def discard_sync(self, ids: Iterable[UUID]) -> list[UUID]:
        """As `discard`, for code that does not await."""
        return self._calls.wait_for(self.discard(ids))

    async def find_jobs(self, **filters: Unpack[JobFilter]) -> list[UUID]:
        """The ids of live jobs that match every filter: for `cancel_many`, `run_now`, `discard` and `revive`.

        Filters: `status`, `queue`, `kind`, `error`, `since`, `waiting`, `limit`; see `JobFilter`.
        """
        return sorted(row[0] for row in await self._calls.run("views", "find", *find_arguments(filters)))

    def find_jobs_sync(self, **filters: Unpack[JobFilter]) -> list[UUID]:
        """As `find_jobs`, for code that does not await."""
        return self._calls.wait_for(self.find_jobs(**filters))

    async def revive(self, ids: Iterable[UUID]) -> list[UUID]:
        """Make dead letters pending again, with a full set of attempts. Returns the ids that were revived."""
        return await jobs.revive(self._calls, ids)

    def revive_sync(self, ids: Iterable[UUID]) -> list[UUID]:
        """As `revive`, for code that does not await."""
        return self._calls.wait_for(self.revive(ids))

    async def pause(self, queue: str) -> None:
        """Stop claiming from this queue. Running jobs finish."""
        await queues.pause(self._calls, check_name("queue", queue))

    def pause_sync(self, queue: str) -> None:
        """As `pause`, for code that does not await."""
        self._calls.wait_for(self.pause(queue))

    async def resume(self, queue: str) -> None:
        """Claim from this queue again."""
        await queues.resume(self._calls, check_name("queue", queue))

    def resume_sync(self, queue: str) -> None:
        """As `resume`, for code that does not await."""
        self._calls.wait_for(self.resume(queue))

    async def set_queue(
        self,
        queue: str,
        *,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        owned: bool | None = None,
    ) -> None:
        """Set how jobs of this queue run that are enqueued from now on; None: as before.

        `ordered`: one at a time and in order, per key, unless their task says otherwise; `on_failure`: see `task`.
        `owned`: each bucket of keys is claimed by one live worker, chosen by the ring, until the workers change.
        """
        flags = (check_flag("ordered", ordered), skips(on_failure), check_flag("owned", owned))
        await queues.set_modes(self._calls, check_name("queue", queue), *flags)

    def set_queue_sync(
        self,
        queue: str,
        *,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        owned: bool | None = None,
    ) -> None:
        """As `set_queue`, for code that does not await."""
        self._calls.wait_for(self.set_queue(queue, ordered=ordered, on_failure=on_failure, owned=owned))

    async def drain_workers(self, workers: Sequence[str]) -> list[str]:
        """Ask these workers to finish running jobs, hand back the rest and stop. Returns those that were alive.

        Each notices within its heartbeat interval. An embedded worker stops claiming and waits for its block to end.
        """
        known = {row["id"] for row in await self._calls.run("views", "workers")}
        if unknown := sorted(set(workers) - known):
            raise NotFound(f"There is no worker {', '.join(unknown)}; see holdfast workers list. Nothing was drained")
        return await members.drain(self._calls, workers)

    def drain_workers_sync(self, workers: Sequence[str]) -> list[str]:
        """As `drain_workers`, for code that does not await."""
        return self._calls.wait_for(self.drain_workers(workers))

    # Schedules

    def every(self, period: Duration, /, *, name: str | None = None, **options: Unpack[ScheduleOptions]) -> Scheduled:
        """Enqueue a job of a task every so often: `@hf.every("5m")` above `@hf.task`.

        Slots are the multiples of the period since 1970-01-01 00:00 UTC. `name` is the task's by default. Options:
        `args`, `missed`, `grace`, `jitter`, `key`, `queue`, `priority`, `max_attempts`, `headers`; see
        `ScheduleOptions`.
        """
        return scheduled(self, name, None, period, "UTC", options)

    def cron(
        self, expression: str, /, *, tz: str = "UTC", name: str | None = None, **options: Unpack[ScheduleOptions]
    ) -> Scheduled:
        """Enqueue a job of a task by the clock: `@hf.cron("0 7 * * 1-5", tz="Europe/Berlin")` above `@hf.task`.

        The five fields are minute, hour, day, month and weekday. Options: as those of `every`.
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
        """Add a schedule at run time, or replace the one of this name: `await hf.schedule("a", task, every="1h")`."""
        await schedules.put(self._calls, declare(task, check_name("name", name), timing(cron, every, tz), options))
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

    async def unschedule(self, name: str) -> None:
        """Remove a schedule from the table. One that is still in the code of a worker comes back."""
        await schedules.remove(self._calls, name)

    def unschedule_sync(self, name: str) -> None:
        """As `unschedule`, for code that does not await."""
        self._calls.wait_for(self.unschedule(name))

    async def pause_schedule(self, name: str) -> None:
        """Fire nothing until it is resumed."""
        await schedules.pause(self._calls, name)

    def pause_schedule_sync(self, name: str) -> None:
        """As `pause_schedule`, for code that does not await."""
        self._calls.wait_for(self.pause_schedule(name))

    async def resume_schedule(self, name: str) -> None:
        """Fire again, from the next slot on. Slots of the pause are not made up for."""
        await schedules.resume(self._calls, name)

    def resume_schedule_sync(self, name: str) -> None:
        """As `resume_schedule`, for code that does not await."""
        self._calls.wait_for(self.resume_schedule(name))

    async def trigger_schedule(self, name: str) -> Job:
        """Enqueue one of its jobs now, beside its slots; also while it is paused."""
        return Job(self, await schedules.trigger(self._calls, name), False)

    def trigger_schedule_sync(self, name: str) -> Job:
        """As `trigger_schedule`, for code that does not await."""
        return self._calls.wait_for(self.trigger_schedule(name))

    async def reset_schedule(self, name: str) -> None:
        """Let a schedule count from now on, after the database's clock was ahead. No slot gets a second job."""
        await schedules.reset(self._calls, name)

    def reset_schedule_sync(self, name: str) -> None:
        """As `reset_schedule`, for code that does not await."""
        self._calls.wait_for(self.reset_schedule(name))

    async def list_schedules(self) -> list[ScheduleState]:
        """Every schedule in the table, by name: those of the code of any worker, and those added at run time."""
        return await schedules.states(self._calls)

    def list_schedules_sync(self) -> list[ScheduleState]:
        """As `list_schedules`, for code that does not await."""
        return self._calls.wait_for(self.list_schedules())

    # The end

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the synchronous calls.

        A synchronous call that is running in another thread has 5 seconds to end; then it raises `Unreachable`.
        """
        await self._calls.close()

    def close_sync(self) -> None:
        """As `close`, for code that does not await."""
        asyncio.run(self.close())


class AllOnAsync:
    """Jobs of several tasks, on a caller's asynchronous connection."""

    def __init__(self, app: Holdfast, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Job]:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        return await enqueue_on_async(self._app, self._caller, Batch.of(jobs))


class AllOnSync:
    """Jobs of several tasks, on a caller's synchronous connection."""

    def __init__(self, app: Holdfast, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Job]:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        return enqueue_on_sync(self._app, self._caller, Batch.of(jobs))


__all__ = ["Holdfast"]
