"""Holdfast, the front door: tasks, enqueueing, workers, and the operator's verbs."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

import asyncpg

from .context import Context, TxContext
from .db import callers, pooler
from .db.address import resolve_pooler, resolve_url
from .db.database import Database
from .db.link import backoff, translate
from .db.portal import Portal
from .definitions import OnFailure, Upcast, define, skips
from .errors import ConfigurationError, Contended, InvalidInput, NotFound, SchemaError, Unreachable
from .inbox import enqueue
from .inbox.enqueue import Order
from .model.durations import Duration, seconds
from .model.job import Job
from .model.limits import DEFAULT_LIMITS, Limits, check_flag, check_name, check_schema
from .schema import migrate
from .tasks import Maker, Task
from .views.questions import JobState, job_state
from .worker.settings import WorkerSettings

if TYPE_CHECKING:
    from .worker.embedded import EmbeddedWorker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

COPY_FROM = 5000
"""Rows from which `enqueue_many` uses COPY by itself."""
UNKNOWN_TRIES = 8
"""How often an enqueue of our own is tried, always under the same id, before an unknown outcome is the caller's."""


REFUSED = "HF001"
"""SQLSTATE of input that our SQL functions refuse."""


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
        self._portal = Portal()
        self._pools: dict[asyncio.AbstractEventLoop, asyncpg.Pool[asyncpg.Record]] = {}
        self._lock = threading.Lock()

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
    ) -> Any:
        """Register a function, sync or async, as a task.

        Its name, by default the function's, is stored with every job: keep it when the function moves or is renamed.
        `version` is that of its payloads; raise it when the arguments change, and add an `upcast` for those in flight.
        `ordered`: its jobs run one at a time and in order, per queue and key; None: as the queue says. When one of them
        fails, the others of its key wait until it succeeds or is a dead letter; with `on_failure="skip"` they go on
        while it waits for its retry.
        """

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            definition = define(
                function, name=name, queue=queue, max_attempts=max_attempts, priority=priority, timeout=timeout,
                version=version, ordered=ordered, on_failure=on_failure,
            )  # fmt: skip
            if definition.kind in self.tasks:
                raise ConfigurationError(
                    f"There is already a task {definition.kind!r}; pass name='…' to tell them apart"
                )
            task: Task[Any, Any] = Task(self, definition)
            self.tasks[definition.kind] = task
            return task

        return register if function is None else register(function)

    def upcast(self, task: Task[Any, Any], *, from_version: int) -> Callable[[Upcast], Upcast]:
        """Register how a payload of `from_version` becomes one of the next version."""

        def register(function: Upcast) -> Upcast:
            definition = task.definition
            if not 1 <= from_version < definition.version:
                raise ConfigurationError(
                    f"from_version: {definition.kind} is at version {definition.version}; expected 1 to "
                    f"{definition.version - 1}, got {from_version}; raise the task's version first"
                )
            if from_version in definition.upcasts:
                raise ConfigurationError(f"{definition.kind} already has an upcast from version {from_version}")
            definition.upcasts[from_version] = function
            return function

        return register

    # Enqueueing on a connection of our own

    def caller(self, connection: Any) -> callers.Caller:
        """The way to run operations on someone's open connection."""
        return callers.caller(connection)

    async def enqueue_own(self, maker: Maker, arguments: dict[str, Any]) -> Job:
        """Enqueue one job; when the answer is lost, ask again under the same id, which cannot add a second."""
        order, terms = maker.order(arguments), maker.terms

        async def enqueue_one(connection: Any, repeated: bool) -> Job:
            operation = (enqueue.again if repeated else enqueue.one)(self.database, order, terms)
            return operation.decode(await connection.fetch(operation.sql, *operation.parameters))

        return await self._insist(enqueue_one)

    async def enqueue_many_own(self, maker: Maker, orders: Sequence[Order], copy: bool | None) -> list[Job]:
        """Enqueue all or none, as patiently as `enqueue_own`."""
        keyed = any(order.idempotency_key is not None for order in orders)
        if copy and keyed:
            raise InvalidInput("copy", "COPY cannot look up idempotency keys; leave copy out")
        copying = len(orders) >= COPY_FROM and not keyed if copy is None else copy

        async def enqueue_all(connection: Any, repeated: bool) -> list[Job]:
            if repeated:
                operation = enqueue.all_again(self.database, orders, maker.terms)
                return operation.decode(await connection.fetch(operation.sql, *operation.parameters))
            async with connection.transaction():
                if copying:
                    return await self._copy(connection, maker, orders)
                made: enqueue.Made = {}
                for part in enqueue.many(self.database, orders, maker.terms):
                    made |= part.decode(await connection.fetch(part.sql, *part.parameters))
            return [made[order.id] for order in orders]

        return await self._insist(enqueue_all) if orders else []

    async def _copy(self, connection: Any, maker: Maker, orders: Sequence[Order]) -> list[Job]:
        sql, parameters = enqueue.before_copy(self.database, maker.terms)
        answer = await connection.fetchrow(sql, *parameters)
        await connection.copy_records_to_table(
            "inbox",
            schema_name=self.database.schema,
            columns=enqueue.COLUMNS,
            records=enqueue.records(orders, maker.terms, answer),
        )
        return [Job(order.id) for order in orders]

    async def _insist(self, ask: Callable[[Any, bool], Awaitable[T]]) -> T:
        """Ask until there is an answer; `ask` is told whether it asked before."""
        failures = 0
        while True:
            try:
                pool = await self._pool()
                with self._translated():
                    async with pool.acquire() as connection:
                        return await ask(connection, failures > 0)
            except (Unreachable, Contended):
                failures += 1
                if failures == UNKNOWN_TRIES:
                    raise
                await asyncio.sleep(backoff(failures))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError) as error:
            raise SchemaError(
                f"The schema {self.database.schema!r} at {self.database.shown} is missing or older than this release "
                f"({error}). Run: {migrate.command(self.database.schema)}"
            ) from error
        except Exception as error:
            if (refusal := self.database.refusal(error)) is not None:
                raise refusal from None
            if getattr(error, "sqlstate", None) == REFUSED:
                field, _, problem = str(error).partition(": ")
                raise InvalidInput(field, problem) from None
            if refused := self.database.refusal(error):
                raise refused from None
            translated = translate(error)
            if translated is error:
                raise
            if isinstance(translated, Unreachable):
                raise self.database.unreachable(error) from error
            raise translated from error

    async def _pool(self) -> asyncpg.Pool[asyncpg.Record]:
        loop = asyncio.get_running_loop()
        with self._lock:
            pool = self._pools.get(loop)
            if pool is None:
                for gone in [other for other in self._pools if other.is_closed()]:
                    del self._pools[gone]
                pool = self._pools[loop] = self.database.pool(max_size=10, command_timeout=30, reset=pooler.keep)
        return await pool

    def portal_run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on our own event loop, in a thread, and wait."""
        return self._portal.run(work)

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
        worker = EmbeddedWorker(self, settings)
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
        """Cancel a job: 'failed' when it ended at once, 'processing' when its handler is being told."""
        rows = await self.query("inbox", "cancel", id, reason)
        if not rows:
            raise NotFound(f"There is no live job {id}; it may have ended already")
        return str(rows[0][0])

    async def revive(self, ids: Sequence[UUID]) -> list[UUID]:
        """Make dead letters pending again with a full set of attempts; the ids that were revived."""
        return [row[0] for row in await self.query("inbox", "revive", sorted(ids))]

    async def pause(self, queue: str) -> None:
        """Claim nothing more from this queue; what runs, finishes."""
        await self.query("inbox", "pause", check_name("queue", queue))

    async def resume(self, queue: str) -> None:
        """Claim from this queue again."""
        await self.query("inbox", "resume", check_name("queue", queue))

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
        await self.query("inbox", "set_queue", check_name("queue", queue), *flags)

    async def drain_workers(self, workers: Sequence[str]) -> list[str]:
        """Ask these workers to finish what runs, hand back the rest and end; those that were alive.

        Each notices within its heartbeat interval. One inside an application stops claiming and waits for its block to
        end.
        """
        known = {row["id"] for row in await self.query("views", "workers")}
        if unknown := sorted(set(workers) - known):
            raise NotFound(f"There is no worker {', '.join(unknown)}; see holdfast workers list. Nothing was drained")
        return sorted(row[0] for row in await self.query("ownership", "drain", list(workers)))

    async def query(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql` on a connection of our own."""
        pool = await self._pool()
        with self._translated():
            return list(await pool.fetch(self.database.sql(room, name), *arguments))

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the synchronous calls."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()
        if self._portal.running:
            loop = self._portal.loop()
            other = self._pools.pop(loop, None)
            if other is not None:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(other.close(), loop))
            self._portal.stop()

    def close_sync(self) -> None:
        """As `close`, for code that does not await."""
        asyncio.run(self.close())


__all__ = ["Holdfast"]
