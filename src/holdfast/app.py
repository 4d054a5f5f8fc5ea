"""Holdfast, the front door: tasks, enqueueing and workers. It inherits operators' verbs and schedules."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from .calls import Calls
from .context import Context, TxContext
from .contracts.types import EventTypes
from .db import callers
from .db.callers import AsyncConnection
from .db.database import Database
from .db.urls import resolve_pooler, resolve_url
from .declaring_events import EventDeclarations
from .definitions import Definition, Runs, TaskOptions, define
from .endpoints import EndpointVerbs
from .errors import ConfigurationError
from .flow.flow import Flow
from .instances import InstanceVerbs
from .job import Job
from .making import Batch
from .middleware import Layer, Only, check_coverage, check_lifespan, surround
from .model.limits import DEFAULT_LIMITS, Limits, check_flag, check_key, check_modules, check_schema
from .model.outcome import Fail, Snooze
from .model.terms import NewJob
from .model.tracing import Tracing
from .outbox.routes import Route
from .publishing import EventVerbs
from .reception import ReceptionVerbs
from .scheduling import ScheduleVerbs
from .sending import send_many
from .tasks import AllOnAsync, AllOnSync, Task, TaskDecorator, jobs_of
from .worker.settings import WorkerOptions, WorkerSettings
from .workflows import Workflow, WorkflowDecorator, WorkflowOptions, check_versions, declare, register

if TYPE_CHECKING:
    from .dashboard.application import Dashboard
    from .dashboard.settings import Auth
    from .receiving.consuming import Consumed
    from .receiving.rejecting import Rejections
    from .schedules.declared import Declared
    from .tables import Sleep, Step, Wait
    from .tasks import ContextTask, PlainTask, TxTask
    from .worker.embedded import EmbeddedWorker

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Callable[[Any, Any], Any]")


class Holdfast(ReceptionVerbs, ScheduleVerbs, InstanceVerbs, EventVerbs, EndpointVerbs, EventDeclarations):
    """One installation of Holdfast: a database, a schema in it, and the tasks of this application.

    `url` defaults to HOLDFAST_DATABASE_URL, then DATABASE_URL, then libpq's PG* variables; `schema` to HOLDFAST_SCHEMA,
    then "holdfast". It connects when it is first used. Set `pooler` if a transaction pooler, such as PgBouncer, is in
    between; it defaults to HOLDFAST_POOLER.

    `lifespan` is called with this Holdfast and makes an async context manager, which surrounds every worker. What it
    yields is `ctx.state`. `lifespan_sync` makes a plain one, for each process of `process=True`.

    `imports` names the modules that have the tasks: `["shop.tasks"]`. Worker processes import them when they start. The
    constructor does not, so these modules can import `hf`.

    `source` is the name under which this application publishes events; by default that of its database.
    `strict_events` rejects events whose type is not declared with `hf.event`.

    ```python
    hf = Holdfast()  # the URL is in HOLDFAST_DATABASE_URL
    ```
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
        imports: Iterable[str] = (),
        source: str | None = None,
        strict_events: bool = False,
    ) -> None:
        self._url = url
        self._schema = check_schema((os.environ.get("HOLDFAST_SCHEMA") or "holdfast") if schema is None else schema)
        self._pooler = pooler
        self._resolved: Database | None = None
        self.limits = limits
        """Sizes above which input is rejected."""
        self.tasks: dict[str, Task[Any, Any]] = {}
        """The registered tasks, by name."""
        self._schedules: dict[str, Declared] = {}
        """Those of the code, by name."""
        self._consumers: list[Consumed] = []
        """Those that its workers run."""
        self._rejections: dict[str, Rejections] = {}
        self._event_types: EventTypes = EventTypes(
            strict=bool(check_flag("strict_events", strict_events)), limits=limits
        )
        """Those of the code, by type and version."""
        self._calls = Calls(lambda: self._database)
        self._lifespan = check_lifespan("lifespan", "asynccontextmanager", lifespan)
        self._lifespan_sync = check_lifespan("lifespan_sync", "contextmanager", lifespan_sync)
        self._routes: dict[str, Route] = {}
        """Where events go, by name: see `relay`."""
        self._event_source = check_key("source", source) if source is not None else None
        self._middleware: list[Layer] = []
        self._tracing: Tracing | None = None
        self._imports = check_modules("imports", imports)

    @property
    def _database(self) -> Database:
        """Read from the environment on first use, so that importing an application needs no database."""
        if self._resolved is None:
            self._resolved = Database(self._resolve_url(), self._schema, resolve_pooler(self._pooler))
        return self._resolved

    def _resolve_url(self) -> str | None:
        return resolve_url(self._url)

    def _prepare(self) -> None:
        """Called before the modules with tasks are imported; for frameworks that need a setup first."""

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
        `retry`, `max_snoozes`, `unique_arguments`, `unique_done`, `keep`, `expires`, `key`; see `TaskOptions`.

        ```python
        @hf.task(queue="mail", timeout="30s")
        async def send_receipt(order_id: int) -> str:
            return f"receipt {order_id}"
        ```
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
    def workflow(
        self, function: Callable[Concatenate[Flow, P], Coroutine[Any, Any, R | Fail | Snooze]], /
    ) -> Workflow[P, R]: ...
    @overload
    def workflow(self, **options: Unpack[WorkflowOptions]) -> WorkflowDecorator: ...

    def workflow(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]  # it does
        """Register an async function as a workflow: `@hf.workflow` or `@hf.workflow(version=2)`.

        Its first parameter is a `Flow`; everything that it does goes through that, and is recorded. Options: `name`,
        `queue`, `version`, `max_attempts`, `priority`, `ordered`, `on_failure`, `retry`, `keep`, `expires`, `key`,
        `undo_on_failure`; see `WorkflowOptions`.

        ```python
        @hf.workflow(version=1)
        async def checkout(flow: Flow, order_id: int) -> str:
            receipt = await flow.step("receipt", send_receipt, order_id)
            shipped = await flow.wait("shipped", dict, timeout="3d")
            return receipt if shipped else "late"
        ```
        """
        options_of = cast(WorkflowOptions, options)
        return partial(_declared, self, options_of) if function is None else declare(self, function, options_of)

    def table(
        self,
        name: str,
        version: int,
        steps: Sequence[Step | Wait | Sleep],
        /,
        *,
        earlier: Mapping[int, Sequence[Step | Wait | Sleep]] | None = None,
        **options: Unpack[WorkflowOptions],
    ) -> Workflow[..., Any]:
        """Register a workflow as a table of steps, each with the name of the next. It begins with the first.

        The handlers take arguments of the instance and results of earlier steps, by name, and a context first if they
        want one. If a step has several next steps, its handler returns the name of one. The instance returns what its
        last handler returned. `earlier`: the tables of earlier versions, for instances that began with them. The other
        options are those of `workflow`.

        ```python
        shipping = hf.table(
            "shipping",
            1,
            [
                Step("receipt", send_receipt, next="shipped"),
                Wait("shipped", timeout="3d", next="grace", on_timeout="grace"),
                Sleep("grace", "15m"),
            ],
        )
        await shipping.options(id="shipping:1").start(order_id=1)
        ```
        """
        from .tables import compiled  # most applications have none

        return register(self, compiled(name, version, steps, earlier or {}, options))

    @overload
    def middleware(self, function: M, /) -> M: ...
    @overload
    def middleware(self, *, only: Only | None = None) -> Callable[[M], M]: ...

    def middleware(self, function: Any = None, /, *, only: Only | None = None) -> Any:  # type: ignore[misc]  # it does
        """Run this around every attempt: `@hf.middleware async def timed(ctx, call_next): …`.

        An async function runs around async handlers, any other around handlers in threads and processes. The first one
        is the outermost. `only="async"` or `"sync"` says that the other handlers are left out on purpose.

        ```python
        @hf.middleware(only="async")
        async def timed(ctx: Context, call_next: CallNext) -> None:
            began = time.monotonic()
            await call_next()
            logging.info("%s took %.3f s", ctx.kind, time.monotonic() - began)
        ```
        """

        def register(function: M) -> M:
            self._middleware.append(Layer.of(function, only))
            return function

        return register if function is None else register(function)

    def _surrounded(self) -> dict[str, Definition]:
        """The tasks by kind, with their middleware; those in processes get it there."""
        definitions = {kind: task._definition for kind, task in self.tasks.items()}
        check_coverage(self._middleware, definitions.values())
        check_versions(definitions.values())
        return {
            kind: each if each.runs is Runs.IN_PROCESS else surround(each, self._middleware)
            for kind, each in definitions.items()
        }

    # Enqueueing jobs of several tasks

    async def enqueue_many(self, jobs: Iterable[NewJob], *, copy: bool | None = None) -> list[Job]:
        """Enqueue jobs of different tasks and options, all or none: `[task.job(…), other.options(key="a").job(…)]`.

        ```python
        jobs = await hf.enqueue_many([send_receipt.job(1), send_receipt.options(key="order:2").job(2)])
        ```
        """
        batch = Batch.of(jobs)
        return jobs_of(self, batch, await send_many(self, batch, copy))

    def enqueue_many_sync(self, jobs: Iterable[NewJob], *, copy: bool | None = None) -> list[Job]:
        """As `enqueue_many`, for code that does not await."""
        return self._calls.wait_for(self.enqueue_many(jobs, copy=copy))

    @overload
    def on(self, connection: AsyncConnection, /) -> AllOnAsync: ...  # type: ignore[overload-overlap]
    @overload
    def on(self, connection: object, /) -> AllOnSync: ...

    def on(self, connection: Any, /) -> Any:
        """Enqueue on your connection, in its open transaction: `await hf.on(connection).enqueue_many([…])`.

        ```python
        async with connection.transaction():
            await connection.execute("insert into orders values (3)")
            await hf.on(connection).enqueue_many([send_receipt.job(3)])
        ```
        """
        caller = callers.caller(connection)
        return (AllOnAsync if caller.awaited else AllOnSync)(self, caller)

    # Working

    @asynccontextmanager
    async def worker(self, **options: Unpack[WorkerOptions]) -> AsyncIterator[EmbeddedWorker]:
        """Run a worker inside this process: `async with hf.worker(concurrency=10):`.

        Options: `queues`, `concurrency`, `lease`, `drain`, `grace`, `housekeeping`, `heartbeat`, `poll`, `notify`,
        `metrics`, `imports`; see `WorkerOptions`. It serves the queues of the registered tasks, or those in `queues`.
        When the block ends, the worker drains: running jobs have `drain` to finish, the rest is handed back.

        Leases are renewed from a thread, which is weaker than the supervisor of `holdfast worker`: a handler that
        holds the GIL for longer than the lease loses it.

        ```python
        async with hf.worker(concurrency=10):
            assert await jobs[0].result(timeout="10s") == "receipt 1"
        ```
        """
        from .loading import import_tasks, served
        from .worker.embedded import EmbeddedWorker

        settings = WorkerSettings.of(**options)
        import_tasks(self, settings.imports)
        worker = EmbeddedWorker(served(self, settings.queues), settings)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    # Looking

    def dashboard(
        self,
        *,
        token: str | None = None,
        auth: Auth | None = None,
        allowed_hosts: Iterable[str] = (),
        mask: Iterable[str] | None = None,
        read_only: bool = False,
        secure: bool = False,
    ) -> Dashboard:
        """Make the dashboard, an ASGI application, to mount it in your own: `app.mount("/holdfast", hf.dashboard(…))`.

        It needs `holdfast[dashboard]`, and to know who asks: `token` is what people log in with (32 characters at
        least), or `auth` is called with each request (of Starlette) and returns the user's name, or None. It may be
        async. `allowed_hosts`: the names by which people reach it. `mask`: fields whose values are hidden, instead of
        the usual ones. `read_only` refuses every action. `secure`: it is behind HTTPS.

        ```python
        from starlette.requests import Request


        def signed_in(request: Request) -> str | None:
            return request.headers.get("x-user")  # set by your proxy


        dashboard = hf.dashboard(auth=signed_in, allowed_hosts=["ops.example"])
        ```
        """
        try:
            from .dashboard.application import Dashboard
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"The dashboard needs packages that are not installed. Run: pip install 'holdfast[dashboard]' ({error})"
            ) from None
        from .dashboard.settings import settings

        given = settings(
            token=token, auth=auth, allowed_hosts=allowed_hosts, mask=mask, read_only=read_only, secure=secure
        )
        if given.open:
            raise ConfigurationError(
                "hf.dashboard() needs token= or auth=: everybody who reaches your application could read payloads and "
                "cancel jobs. On your own machine, use the command: holdfast dashboard"
            )
        return Dashboard(self, given)

    # The end

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the synchronous calls.

        A synchronous call that is running in another thread has 5 seconds to end; then it raises `Unreachable`.

        ```python
        await hf.close()
        ```
        """
        await self._calls.close()

    def close_sync(self) -> None:
        """As `close`, for code that does not await."""
        asyncio.run(self.close())


def _declared(app: Holdfast, options: WorkflowOptions, function: Callable[..., Any], /) -> Workflow[Any, Any]:
    return declare(app, function, options)


__all__ = ["Holdfast"]
