"""Holdfast, the front door: tasks, enqueueing, workers, and the operator's verbs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

import asyncpg

from .calls import Calls
from .context import Context, TxContext
from .db.database import Database
from .db.urls import resolve_pooler, resolve_url
from .definitions import OnFailure, define, skips
from .errors import ConfigurationError, NotFound
from .inbox import operating as jobs
from .model.durations import Duration, seconds
from .model.limits import DEFAULT_LIMITS, Limits, check_flag, check_name, check_schema
from .ownership import members
from .queues import operating as queues
from .schema import migrate
from .tasks import Task
from .views.questions import JobState, job_state
from .worker.settings import WorkerSettings

if TYPE_CHECKING:
    from .worker.embedded import EmbeddedWorker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class TaskDecorator(Protocol):
    """What `hf.task(…)` returns."""

    @overload
    def __call__(self, function: Callable[Concatenate[TxContext, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class Holdfast:
    """One installation of Holdfast: a database, a schema in it, and the tasks of this application.

    `url` defaults to HOLDFAST_DATABASE_URL, then DATABASE_URL, then libpq's PG* variables; `schema` to HOLDFAST_SCHEMA,
    then "holdfast". Nothing connects before something is asked for. `pooler` says that a transaction pooler is in
    between, and defaults to HOLDFAST_POOLER.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        schema: str | None = None,
        pooler: bool | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._url = url
        self._schema = check_schema((os.environ.get("HOLDFAST_SCHEMA") or "holdfast") if schema is None else schema)
        self._pooler = pooler
        self._database: Database | None = None
        self.limits = limits
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.calls = Calls(lambda: self.database)

    @property
    def database(self) -> Database:
        """Where it is; read from the environment on first use, so that importing an application needs no database."""
        if self._database is None:
            self._database = Database(resolve_url(self._url), self._schema, resolve_pooler(self._pooler))
        return self._database

    # Declaring

    @overload
    def task(self, function: Callable[Concatenate[TxContext, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        max_attempts: int = 5,
        priority: int = 1,
        timeout: Duration = "1h",
        version: int = 1,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        process: bool = False,
    ) -> TaskDecorator: ...

    def task(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        queue: str = "default",
        max_attempts: int = 5,
        priority: int = 1,
        timeout: Duration = "1h",
        version: int = 1,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        process: bool = False,
    ) -> Any:
        """Register a function, sync or async, as a task.

        Its name, by default the function's, is stored with every job: keep it when the function moves or is renamed.
        `version` is that of its payloads; raise it when the arguments change, and add an `upcast` for those in flight.
        `ordered`: its jobs run one at a time and in order, per queue and key; None: as the queue says. When one of them
        fails, the others of its key wait until it succeeds or is a dead letter; with `on_failure="skip"` they go on
        while it waits for its retry.
        `process`: run it in another process than the worker's, for work that keeps a core busy or may crash.
        """

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            definition = define(
                function, name=name, queue=queue, max_attempts=max_attempts, priority=priority, timeout=timeout,
                version=version, ordered=ordered, on_failure=on_failure, process=process,
            )  # fmt: skip
            if definition.kind in self.tasks:
                raise ConfigurationError(
                    f"There is already a task {definition.kind!r}; pass name='…' to tell them apart"
                )
            task: Task[Any, Any] = Task(self, definition)
            self.tasks[definition.kind] = task
            return task

        return register if function is None else register(function)

    # Working

    @asynccontextmanager
    async def worker(
        self,
        *,
        queues: Sequence[str] = (),
        concurrency: int = 20,
        lease: Duration = "90s",
        drain: Duration = "25s",
        grace: Duration = "10s",
        housekeeping: Duration = "10s",
        poll: Duration = "1s",
        heartbeat: Duration = "10s",
        notify: bool = True,
    ) -> AsyncIterator[EmbeddedWorker]:
        """Run a worker inside this process: `async with hf.worker(concurrency=10):`.

        It serves the queues of the registered tasks, or those named. Leaving the block drains it: running jobs may take
        `drain` to finish, the rest goes back. `poll` is the longest pause between looks when there is nothing to do;
        with `notify`, a job that comes in such a pause is heard of at once.

        Leases are renewed from a thread, which is weaker than the supervisor of `holdfast worker`: a handler that
        holds the GIL for longer than the lease loses it.
        """
        from .loading import served
        from .worker.embedded import EmbeddedWorker

        longest = seconds(poll, "poll")
        settings = WorkerSettings(
            queues=tuple(check_name("queue", queue) for queue in queues),
            concurrency=concurrency,
            lease=seconds(lease, "lease"),
            drain=seconds(drain, "drain"),
            grace=seconds(grace, "grace"),
            housekeeping=seconds(housekeeping, "housekeeping"),
            poll_min=min(0.005, longest),
            poll_max=longest,
            heartbeat=seconds(heartbeat, "heartbeat"),
            notify=notify,
        )
        worker = EmbeddedWorker(served(self, settings.queues), settings)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    # Operating

    async def migrate(self) -> list[str]:
        """Bring the schema to this release; the names of what was applied."""
        return [applied.name for applied in await migrate.migrate(self.database)]

    async def job(self, id: UUID) -> JobState:
        """Where a job is: waiting, running, dead, or ended with its result. Ended jobs are kept for `archive_days`."""
        rows = await self.query("views", "job", id)
        if not rows:
            raise NotFound(
                f"There is no job {id} in schema {self.database.schema}; ended jobs are kept for archive_days"
            )
        return job_state(dict(rows[0]))

    async def cancel(self, id: UUID, reason: str = "cancelled") -> str:
        """Cancel a job: 'cancelled' when it ended at once, 'processing' when its handler is being told.

        A dead letter is left as it is: 'dead_letter'.
        """
        return await jobs.cancel(self.calls, id, reason)

    async def revive(self, ids: Sequence[UUID]) -> list[UUID]:
        """Make dead letters pending again with a full set of attempts; the ids that were revived."""
        return await jobs.revive(self.calls, ids)

    async def pause(self, queue: str) -> None:
        """Claim nothing more from this queue; what runs, finishes."""
        await queues.pause(self.calls, check_name("queue", queue))

    async def resume(self, queue: str) -> None:
        """Claim from this queue again."""
        await queues.resume(self.calls, check_name("queue", queue))

    async def set_queue(
        self,
        queue: str,
        *,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        owned: bool | None = None,
    ) -> None:
        """Say how the jobs of this queue run that are enqueued from now on; None: as before.

        `ordered`: one at a time and in order, per key, unless their task says otherwise; `on_failure`: see `task`.
        `owned`: each bucket of keys is claimed by one live worker, by the ring, until the pool changes.
        """
        flags = (check_flag("ordered", ordered), skips(on_failure), check_flag("owned", owned))
        await queues.set_modes(self.calls, check_name("queue", queue), *flags)

    async def drain_workers(self, workers: Sequence[str]) -> list[str]:
        """Ask these workers to finish what runs, hand back the rest and end; those that were alive.

        Each notices within its heartbeat interval. One inside an application stops claiming and waits for its block to
        end.
        """
        known = {row["id"] for row in await self.query("views", "workers")}
        if unknown := sorted(set(workers) - known):
            raise NotFound(f"There is no worker {', '.join(unknown)}; see holdfast workers list. Nothing was drained")
        return await members.drain(self.calls, workers)

    async def query(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql` on a connection of our own."""
        return await self.calls.run(room, name, *arguments)

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the synchronous calls.

        A synchronous call that is under way in another thread has 5 seconds to end; then it raises `Unreachable`.
        """
        await self.calls.close()

    def close_sync(self) -> None:
        """As `close`, for code that does not await."""
        asyncio.run(self.close())


__all__ = ["Holdfast"]
