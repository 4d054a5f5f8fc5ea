"""Tasks: functions under stable names, and the ways to enqueue them."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload
from uuid import UUID

from .context import Context, TxContext
from .contracts.types import NOTHING
from .db import callers
from .db.callers import AsyncConnection, Caller
from .definitions import Definition, Upcast
from .errors import ConfigurationError, InvalidInput
from .instances import Signalled, signal_operation
from .job import Job
from .making import Batch, EnqueueOptions, Maker, check_options
from .model.terms import NewJob, Stored
from .outbox.publish import Published
from .publishing import PublishOptions, publish_on_async, publish_on_sync
from .sending import send, send_many, send_many_on_async, send_many_on_sync, send_on_async, send_on_sync

if TYPE_CHECKING:
    from .app import Holdfast
    from .workflows import Instance

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function that can be enqueued. Called directly, it is the function itself.

    ```python
    assert await send_receipt(1) == "receipt 1"  # an ordinary call: no job
    ```
    """

    def __init__(self, app: Holdfast, definition: Definition, options: EnqueueOptions | None = None) -> None:
        self._app = app
        self._definition = definition
        self._options = options or EnqueueOptions()
        self._made: Maker | None = None
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.kind
        self.__wrapped__ = definition.function

    def __repr__(self) -> str:
        return f"<Task {self._definition.kind}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> R:
        return cast(R, self._definition.function(*arguments, **keywords))

    def options(self, **options: typing.Unpack[EnqueueOptions]) -> Task[P, R]:
        """The same task with these options: `task.options(key="order:1", delay="5m").enqueue(…)`.

        ```python
        job = await send_receipt.options(key="order:5", delay="5m").enqueue(5)
        ```
        """
        check_options("options", options)
        return Task(self._app, self._definition, {**self._options, **options})

    @overload
    def on(self, connection: AsyncConnection, /, **options: typing.Unpack[EnqueueOptions]) -> OnAsync[P]: ...  # type: ignore[overload-overlap]

    @overload
    def on(self, connection: object, /, **options: typing.Unpack[EnqueueOptions]) -> OnSync[P]: ...

    def on(self, connection: Any = None, /, **options: typing.Unpack[EnqueueOptions]) -> Any:
        """The same task, enqueued on your connection, in its open transaction. Takes the options of `options`, too.

        `await task.on(connection, key="order:1").enqueue(…)`; do not await it if the connection is synchronous.

        ```python
        async with connection.transaction():
            await connection.execute("insert into orders values (6)")
            job = await send_receipt.on(connection, key="order:6").enqueue(6)
        ```
        """
        if connection is None:
            raise InvalidInput("connection", "on() needs one; for options alone, write task.options(…)")
        check_options("on", options)
        caller = callers.caller(connection)
        changed = Maker(self._app.limits, self._definition, {**self._options, **options}) if options else None
        return (OnAsync if caller.awaited else OnSync)(self._app, caller, changed or self._maker())

    def upcast(self, *, from_version: int) -> Callable[[Upcast], Upcast]:
        """Register how a payload of `from_version` becomes one of the next version: `@task.upcast(from_version=1)`.

        ```python
        @hf.task(version=2)
        async def ship(order_id: int, express: bool) -> None: ...


        @ship.upcast(from_version=1)
        def ship_had_no_express(arguments: dict[str, Any]) -> dict[str, Any]:
            return {**arguments, "express": False}
        ```
        """

        def register(function: Upcast) -> Upcast:
            definition = self._definition
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

    def job(self, *arguments: P.args, **keywords: P.kwargs) -> NewJob:
        """Make a job without enqueueing it, for `hf.enqueue_many([task.job(…), other.job(…)])`.

        ```python
        jobs = await hf.enqueue_many([send_receipt.job(7), ship.job(7, express=True)])
        ```
        """
        return self._maker().one(arguments, keywords)

    async def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue on a connection of Holdfast's own. The job is committed when this returns.

        ```python
        job = await send_receipt.enqueue(8)
        ```
        """
        job = self._maker().one(arguments, keywords)
        return _job(self._app, job, await send(self._app, job))

    async def enqueue_many(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        idempotency_keys: Iterable[str] | None = None,
        copy: bool | None = None,
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments, all or none. `copy`: use COPY; None: if there are very many.

        ```python
        jobs = await send_receipt.enqueue_many([{"order_id": 9}, {"order_id": 10}])
        ```
        """
        batch = self._maker().many(arguments, idempotency_keys)
        return jobs_of(self._app, batch, await send_many(self._app, batch, copy))

    def enqueue_sync(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """As `enqueue`, for code that does not await."""
        return self._app._calls.wait_for(self.enqueue(*arguments, **keywords))

    def enqueue_many_sync(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        idempotency_keys: Iterable[str] | None = None,
        copy: bool | None = None,
    ) -> list[Job]:
        """As `enqueue_many`, for code that does not await."""
        return self._app._calls.wait_for(self.enqueue_many(arguments, idempotency_keys=idempotency_keys, copy=copy))

    def _maker(self) -> Maker:
        if self._made is None:
            self._made = Maker(self._app.limits, self._definition, self._options)
        return self._made


if TYPE_CHECKING:
    # What a task takes when it is called directly: what its function takes.

    class PlainTask(Task[P, R]):
        def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R: ...

    class TxTask(Task[P, R]):
        def __call__(self, ctx: TxContext, /, *arguments: P.args, **keywords: P.kwargs) -> R: ...

    class ContextTask(TxTask[P, R]):
        def __call__(self, ctx: Context, /, *arguments: P.args, **keywords: P.kwargs) -> R: ...


class TaskDecorator(typing.Protocol):
    """What `hf.task(…)` returns."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[TxContext, P], R], /) -> TxTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...


class OnAsync(Generic[P]):
    """A task on a caller's asynchronous connection."""

    def __init__(self, app: Holdfast, caller: Caller, maker: Maker) -> None:
        self._app = app
        self._caller = caller
        self._maker = maker

    async def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        job = self._maker.one(arguments, keywords)
        return _job(self._app, job, await send_on_async(self._app, self._caller, job))

    async def enqueue_many(
        self, arguments: Iterable[Mapping[str, Any]], *, idempotency_keys: Iterable[str] | None = None
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments."""
        return await enqueue_on_async(self._app, self._caller, self._maker.many(arguments, idempotency_keys))


class OnSync(Generic[P]):
    """A task on a caller's synchronous connection."""

    def __init__(self, app: Holdfast, caller: Caller, maker: Maker) -> None:
        self._app = app
        self._caller = caller
        self._maker = maker

    def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        job = self._maker.one(arguments, keywords)
        return _job(self._app, job, send_on_sync(self._app, self._caller, job))

    def enqueue_many(
        self, arguments: Iterable[Mapping[str, Any]], *, idempotency_keys: Iterable[str] | None = None
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments."""
        return enqueue_on_sync(self._app, self._caller, self._maker.many(arguments, idempotency_keys))


async def enqueue_on_async(app: Holdfast, caller: Caller, batch: Batch) -> list[Job]:
    """Enqueue a batch in the caller's open transaction."""
    return jobs_of(app, batch, await send_many_on_async(app, caller, batch))


def enqueue_on_sync(app: Holdfast, caller: Caller, batch: Batch) -> list[Job]:
    """As `enqueue_on_async`, on a synchronous connection."""
    return jobs_of(app, batch, send_many_on_sync(app, caller, batch))


def jobs_of(app: Holdfast, batch: Batch, stored: Iterable[Stored]) -> list[Job]:
    """What the caller gets for a batch that was enqueued."""
    return [
        Job(app, each.id, each.existed, each.replaced, job.kept) for job, each in zip(batch.made, stored, strict=True)
    ]


def _job(app: Holdfast, job: NewJob, stored: Stored) -> Job:
    return Job(app, stored.id, stored.existed, stored.replaced, job.kept)


class AllOnAsync:
    """Jobs of several tasks, events and signals, on a caller's asynchronous connection."""

    def __init__(self, app: Holdfast, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Job]:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        return await enqueue_on_async(self._app, self._caller, Batch.of(jobs))

    async def publish(self, event: Any, data: Any = NOTHING, /, **options: Unpack[PublishOptions]) -> Published:
        """Publish an event in the caller's open transaction: it exists exactly when that commits."""
        return await publish_on_async(self._app, self._caller, event, data, options)

    async def signal(
        self, instance: str | UUID | Instance[Any], name: str, payload: Any = None, *, signal_id: str | None = None
    ) -> Signalled:
        """Send a signal to a workflow instance in the caller's open transaction: it counts when that commits."""
        operation = signal_operation(self._app._database, self._app.limits, instance, name, payload, signal_id)
        return await cast(Awaitable[Signalled], self._caller.run(operation))


class AllOnSync:
    """Jobs of several tasks, events and signals, on a caller's synchronous connection."""

    def __init__(self, app: Holdfast, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Job]:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        return enqueue_on_sync(self._app, self._caller, Batch.of(jobs))

    def publish(self, event: Any, data: Any = NOTHING, /, **options: Unpack[PublishOptions]) -> Published:
        """Publish an event in the caller's open transaction: it exists exactly when that commits."""
        return publish_on_sync(self._app, self._caller, event, data, options)

    def signal(
        self, instance: str | UUID | Instance[Any], name: str, payload: Any = None, *, signal_id: str | None = None
    ) -> Signalled:
        """Send a signal to a workflow instance in the caller's open transaction: it counts when that commits."""
        operation = signal_operation(self._app._database, self._app.limits, instance, name, payload, signal_id)
        return cast(Signalled, self._caller.run(operation))
