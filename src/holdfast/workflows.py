"""Workflows: code whose steps are recorded, and the ways to start it."""

from __future__ import annotations

import typing
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, cast, overload
from uuid import UUID

import msgspec

from .db import callers
from .db.callers import AsyncConnection, Caller
from .definitions import Definition, OnFailure, define
from .errors import ConfigurationError, InvalidInput, InvalidPayload
from .flow.flow import Flow
from .flow.functions import result_of
from .job import Job
from .making import Batch, EnqueueOptions, Maker
from .model.backoff import Backoff, RetryFunction
from .model.durations import Duration
from .model.limits import check_int
from .model.outcome import Fail, Snooze
from .model.terms import NewJob, Stored
from .sending import send, send_many, send_many_on_async, send_many_on_sync, send_on_async, send_on_sync
from .tasks import Task

if TYPE_CHECKING:
    from .app import Holdfast

P = ParamSpec("P")
R = TypeVar("R")
Code = TypeVar("Code", bound=Callable[..., Coroutine[Any, Any, Any]])


class WorkflowOptions(typing.TypedDict, total=False):
    """The options of `Holdfast.workflow`.

    ```python
    @hf.workflow(name="orders.ship", queue="shipping", version=1, undo_on_failure=True)
    async def ship_order(flow: Flow, order_id: int) -> None: ...
    ```
    """

    name: str | None
    """Stored with every instance, so keep it when the function is renamed; None: the function's name."""
    queue: str
    """The queue of its instances; 'default'."""
    version: int
    """Of the code; 1. Raise it when the steps change, and keep the old code with `Workflow.version`: an instance keeps
    the version it began with."""
    max_attempts: int
    """Runs without any progress until an instance becomes a dead letter; 5. Steps have attempts of their own."""
    priority: int
    """0 (first) to 3 (last); 1."""
    ordered: bool | None
    """One instance at a time and in order, per queue and key; None: as the queue says."""
    on_failure: OnFailure | None
    """While an instance of an ordered key waits, the others of the key wait too ('block') or run ('skip')."""
    retry: Backoff | RetryFunction | None
    """When an instance is retried whose code raised, outside its steps; None: the installation's backoff."""
    keep: str | timedelta | None
    """How long a completed instance is kept at least, with its steps; None: it leaves no row, and so has no result;
    left out: `archive_days`."""
    expires: Duration | None
    """If an instance has not started this long after `start`, end it as expired."""
    key: Callable[..., str] | None
    """Makes the key of an instance from its arguments: `key=lambda order_id: f"order:{order_id}"`."""
    undo_on_failure: bool
    """When a step is out of attempts, undo the finished steps and end as failed, instead of becoming a dead letter."""


class StartOptions(typing.TypedDict, total=False):
    """The options of `Workflow.options` and `Workflow.on`; None, or left out: as the workflow says.

    ```python
    instance = await checkout.options(id="checkout:9182", priority=0).start(order_id=9182)
    ```
    """

    id: str | None
    """The id of the instance: starting twice with one id gives one instance. None: the id of its job."""
    key: str | None
    """What the instance belongs to; order holds within a key."""
    delay: Duration | None
    """Start it after this long."""
    at: datetime | None
    """Start it at this time."""
    queue: str | None
    """The queue to wait in."""
    priority: int | None
    """0 (first) to 3 (last)."""
    max_attempts: int | None
    """Runs without any progress until it becomes a dead letter."""
    headers: Mapping[str, str] | None
    """Metadata, for tracing and the like."""
    expires: Duration | datetime | None
    """If it has not started after this long, or by this time, end it as expired."""


class Instance(Job, Generic[R]):
    """What `start` returns: the id of the instance, and ways to ask about it.

    ```python
    instance = await checkout.options(id="checkout:9").start(order_id=9)
    print(instance.id, instance.existed)
    ```
    """

    __slots__ = ("_instance_id", "_workflow")

    def __init__(self, workflow: Workflow[Any, R], job: NewJob, stored: Stored) -> None:
        super().__init__(workflow._app, stored.id, stored.existed, stored.replaced, job.kept)
        self._workflow = workflow
        self._instance_id = job.idempotency_key or str(stored.id)

    @property
    def id(self) -> str:  # type: ignore[override]  # as `Flow.id`
        """The id given to `options` or `on`; or, as text, that of its job."""
        return self._instance_id

    @property
    def job_id(self) -> UUID:
        """The id of its job."""
        return self._id

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait until the instance ends, and return what the workflow returned, in the type of its annotation.

        Raises `JobFailed` if it did not complete, or is a dead letter; TimeoutError if it has not ended in time (None:
        wait as long as it takes).

        ```python
        await hf.signal(instance, "shipped", {"carrier": "DHL"})
        async with hf.worker():
            assert await instance.result(timeout="10s") == "receipt 9"
        ```
        """
        return self._typed(await super().result(timeout))

    def result_sync(self, timeout: Duration | None = None) -> R:
        """As `result`, for code that does not await."""
        return self._typed(super().result_sync(timeout))

    def _typed(self, plain: Any) -> R:
        if plain is None:
            return cast(R, None)
        try:
            return cast(R, result_of(self._workflow)(msgspec.json.encode(plain)))
        except msgspec.ValidationError as error:
            definition = self._workflow._definition
            raise InvalidPayload(
                "result",
                f"of {definition.kind} {self.id} does not fit the annotation of version {definition.version}: {error}; "
                "hf.result(instance.job_id) returns it as plain JSON",
            ) from None

    def __repr__(self) -> str:
        return f"<Instance {self.id}{' existed' if self.existed else ''}>"


class Workflow(Task[P, R], Generic[P, R]):
    """Code whose steps are recorded. It is started, not called.

    ```python
    instance = await checkout.options(id="checkout:2").start(order_id=2)
    ```
    """

    def __repr__(self) -> str:
        return f"<Workflow {self._definition.kind}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        kind = self._definition.kind
        raise ConfigurationError(
            f"{kind} is a workflow, which is started, not called: await {kind}.start(…); inside another workflow: "
            f"await flow.child('{kind}', {kind}, …)"
        )

    # Versions

    def version(self, number: int, /) -> Callable[[Code], Code]:
        """Register the code of an earlier version, for instances that began with it: `@checkout.version(1)`.

        Workers run instances of the versions whose code they have. Remove the code when `holdfast workflow list` shows
        no instance of it.

        ```python
        @hf.workflow(version=2)
        async def refund_order(flow: Flow, order_id: int, reason: str) -> None: ...


        @refund_order.version(1)
        async def refund_order_1(flow: Flow, order_id: int) -> None: ...
        ```
        """
        definition = self._definition

        def register(function: Code) -> Code:
            add_version(definition, number, function)
            return function

        return register

    def upcast(self, *, from_version: int) -> NoReturn:
        """Raise an error: an instance keeps its version. Keep the code of that with `version`."""
        raise ConfigurationError(
            f"{self._definition.kind} is a workflow: its instances keep the version they began with; register the code "
            f"of version {from_version}: @{self._definition.kind}.version({from_version})"
        )

    # Starting

    def options(self, **options: typing.Unpack[StartOptions]) -> Workflow[P, R]:  # type: ignore[override]
        """The same workflow with these options: `checkout.options(id="checkout:9182").start(…)`.

        ```python
        instance = await checkout.options(id="checkout:3", delay="5m").start(order_id=3)
        ```
        """
        return Workflow(self._app, self._definition, self._with("options", options))

    @overload  # type: ignore[override]
    def on(self, connection: AsyncConnection, /, **options: typing.Unpack[StartOptions]) -> StartOnAsync[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def on(self, connection: object, /, **options: typing.Unpack[StartOptions]) -> StartOnSync[P, R]: ...

    def on(self, connection: Any = None, /, **options: typing.Unpack[StartOptions]) -> Any:
        """The same workflow, started on your connection, in its open transaction. Takes the options of `options`, too.

        `await checkout.on(connection, id="checkout:9182").start(…)`; do not await it if the connection is synchronous.

        ```python
        async with connection.transaction():
            await connection.execute("insert into orders values (4)")
            instance = await checkout.on(connection, id="checkout:4").start(order_id=4)
        ```
        """
        if connection is None:
            raise InvalidInput("connection", "on() needs one; for options alone, write workflow.options(…)")
        caller = callers.caller(connection)
        maker = Maker(self._app.limits, self._definition, self._with("on", options))
        return (StartOnAsync if caller.awaited else StartOnSync)(self, caller, maker)

    async def start(self, *arguments: P.args, **keywords: P.kwargs) -> Instance[R]:
        """Start an instance on a connection of Holdfast's own. It is committed when this returns.

        Starting twice with one id gives one instance: then `existed` is true.

        ```python
        instance = await checkout.options(id="checkout:5").start(order_id=5)
        same = await checkout.options(id="checkout:5").start(order_id=5)
        assert same.job_id == instance.job_id and same.existed
        ```
        """
        job = self._maker().one(arguments, keywords)
        return Instance(self, job, await send(self._app, job))

    def start_sync(self, *arguments: P.args, **keywords: P.kwargs) -> Instance[R]:
        """As `start`, for code that does not await."""
        return self._app._calls.wait_for(self.start(*arguments, **keywords))

    async def start_many(
        self, arguments: Iterable[Mapping[str, Any]], *, ids: Iterable[str] | None = None, copy: bool | None = None
    ) -> list[Instance[R]]:
        """Start one instance per mapping of arguments, all or none. `ids`: one for each. `copy`: use COPY; None: if
        there are very many, and they have no ids.

        ```python
        instances = await checkout.start_many([{"order_id": 6}, {"order_id": 7}], ids=["checkout:6", "checkout:7"])
        ```
        """
        batch = _batch(self._maker(), arguments, ids)
        return _instances(self, batch, await send_many(self._app, batch, copy))

    def start_many_sync(
        self, arguments: Iterable[Mapping[str, Any]], *, ids: Iterable[str] | None = None, copy: bool | None = None
    ) -> list[Instance[R]]:
        """As `start_many`, for code that does not await."""
        return self._app._calls.wait_for(self.start_many(arguments, ids=ids, copy=copy))

    def _with(self, method: str, options: StartOptions) -> EnqueueOptions:
        if unknown := sorted(options.keys() - StartOptions.__annotations__.keys()):
            names = ", ".join(StartOptions.__annotations__)
            raise InvalidInput(unknown[0], f"is not an option of {method}() of a workflow; it takes {names}")
        plain: dict[str, Any] = dict(options)
        if "id" in plain:
            plain["idempotency_key"] = _text_id(plain.pop("id"))
        return cast(EnqueueOptions, {**self._options, **plain})


class StartOnAsync(Generic[P, R]):
    """A workflow on a caller's asynchronous connection."""

    def __init__(self, workflow: Workflow[P, R], caller: Caller, maker: Maker) -> None:
        self._workflow = workflow
        self._caller = caller
        self._maker = maker

    async def start(self, *arguments: P.args, **keywords: P.kwargs) -> Instance[R]:
        """Start an instance in the caller's open transaction: accepted exactly when it commits."""
        job = self._maker.one(arguments, keywords)
        return Instance(self._workflow, job, await send_on_async(self._workflow._app, self._caller, job))

    async def start_many(
        self, arguments: Iterable[Mapping[str, Any]], *, ids: Iterable[str] | None = None
    ) -> list[Instance[R]]:
        """Start one instance per mapping of arguments."""
        batch = _batch(self._maker, arguments, ids)
        stored = await send_many_on_async(self._workflow._app, self._caller, batch)
        return _instances(self._workflow, batch, stored)


class StartOnSync(Generic[P, R]):
    """A workflow on a caller's synchronous connection."""

    def __init__(self, workflow: Workflow[P, R], caller: Caller, maker: Maker) -> None:
        self._workflow = workflow
        self._caller = caller
        self._maker = maker

    def start(self, *arguments: P.args, **keywords: P.kwargs) -> Instance[R]:
        """Start an instance in the caller's open transaction: accepted exactly when it commits."""
        job = self._maker.one(arguments, keywords)
        return Instance(self._workflow, job, send_on_sync(self._workflow._app, self._caller, job))

    def start_many(
        self, arguments: Iterable[Mapping[str, Any]], *, ids: Iterable[str] | None = None
    ) -> list[Instance[R]]:
        """Start one instance per mapping of arguments."""
        batch = _batch(self._maker, arguments, ids)
        stored = send_many_on_sync(self._workflow._app, self._caller, batch)
        return _instances(self._workflow, batch, stored)


class WorkflowDecorator(typing.Protocol):
    """What `hf.workflow(…)` returns."""

    def __call__(
        self, function: Callable[Concatenate[Flow, P], Coroutine[Any, Any, R | Fail | Snooze]], /
    ) -> Workflow[P, R]: ...


def declare(app: Holdfast, function: Callable[..., Any], options: WorkflowOptions) -> Workflow[Any, Any]:
    """Register a workflow."""
    check_options(options)
    definition = define(function, flow=Flow, **options)
    return register(app, definition)


def check_options(options: WorkflowOptions) -> None:
    """Raise for names that are no options of a workflow."""
    if unknown := sorted(options.keys() - WorkflowOptions.__annotations__.keys()):
        names = ", ".join(WorkflowOptions.__annotations__)
        raise ConfigurationError(f"{unknown[0]}: is not an option of a workflow; expected one of {names}")


def add_version(definition: Definition, number: int, function: Callable[..., Any]) -> None:
    """Add the code of an earlier version to a workflow."""
    try:
        check_int("version", number, 1, 2**31 - 1)
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None
    if number >= definition.version:
        raise ConfigurationError(
            f"version: {definition.kind} is at version {definition.version}; expected an earlier one, got {number}; "
            "raise the workflow's version first"
        )
    if number in definition.earlier:
        raise ConfigurationError(f"version: {definition.kind} already has the code of version {number}")
    definition.earlier[number] = define(
        function, name=definition.kind, queue=definition.queue, max_attempts=definition.max_attempts,
        priority=definition.priority, version=number, retry=definition.retry, flow=Flow,
        undo_on_failure=definition.undo_on_failure,
    )  # fmt: skip


def register(app: Holdfast, definition: Definition) -> Workflow[Any, Any]:
    """Add a workflow to the tasks of the application."""
    if definition.kind in app.tasks:
        raise ConfigurationError(
            f"There is already a task or workflow {definition.kind!r}; pass name='…' to tell them apart"
        )
    workflow: Workflow[Any, Any] = Workflow(app, definition)
    app.tasks[definition.kind] = workflow
    return workflow


def check_versions(definitions: Iterable[Definition]) -> None:
    """Refuse a workflow that lacks the code of a version between others: workers serve a range of versions."""
    for each in definitions:
        if each.earlier and (gap := set(range(min(each.earlier), each.version)) - each.earlier.keys()):
            there = ", ".join(map(str, sorted(each.earlier)))
            raise ConfigurationError(
                f"{each.kind} is at version {each.version} and has the code of version {there}, but not of "
                f"{max(gap)}; add it, @{each.kind}.version({max(gap)}), or remove the versions before it"
            )


def _text_id(id: object) -> str | None:
    if isinstance(id, UUID):
        raise InvalidInput("id", f"of an instance is text, such as 'checkout:9182', got a UUID; pass str(id): {id}")
    return cast(str | None, id)


def _batch(maker: Maker, arguments: Iterable[Mapping[str, Any]], ids: Iterable[str] | None) -> Batch:
    try:
        return maker.many(arguments, ids if ids is None else [cast(str, _text_id(id)) for id in ids])
    except InvalidInput as refused:
        if refused.field == "idempotency_key":
            raise InvalidInput("id", "one id cannot stand for many instances; pass ids=[…]") from None
        if refused.field == "idempotency_keys":
            raise InvalidInput("ids", refused.problem.replace("jobs", "instances")) from None
        raise


def _instances(workflow: Workflow[Any, R], batch: Batch, stored: Iterable[Stored]) -> list[Instance[R]]:
    return [Instance(workflow, job, each) for job, each in zip(batch.made, stored, strict=True)]
