"""Tasks: functions under stable names, and the ways to enqueue them."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload
from uuid import UUID

import msgspec

from .db import callers
from .db.callers import AsyncConnection
from .definitions import Definition, Upcast, bind
from .errors import ConfigurationError, InvalidInput, InvalidPayload
from .inbox import enqueue
from .inbox.enqueue import Order, Terms
from .model import payload as payloads
from .model.durations import Duration, seconds
from .model.ids import JobId, new_id, new_ids
from .model.job import Job
from .model.limits import PRIORITIES, Limits, check_instant, check_int, check_key, check_name

if TYPE_CHECKING:
    from .app import Holdfast

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Options:
    """How a job is to be enqueued; None: as its task says."""

    key: str | None = None
    delay: Duration | None = None
    at: datetime | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    idempotency_key: str | None = None
    id: UUID | None = None
    headers: Mapping[str, str] | None = None


class Task(Generic[P, R]):
    """A function that can be enqueued. Called directly, it is the function as it was written."""

    def __init__(self, app: Holdfast, definition: Definition, options: Options = Options()) -> None:  # noqa: B008
        self._app = app
        self._definition = definition
        self._options = options
        self._made: Maker | None = None
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.kind
        self.__wrapped__ = definition.function

    def __repr__(self) -> str:
        return f"<Task {self._definition.kind}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> R:
        return cast(R, self._definition.function(*arguments, **keywords))

    @property
    def definition(self) -> Definition:
        return self._definition

    def options(self, **options: typing.Unpack[EnqueueOptions]) -> Task[P, R]:
        """The same task with these options: `task.options(key="order:1", delay="5m").enqueue(…)`."""
        return Task(self._app, self._definition, self._with("options", options))

    @overload
    def on(self, connection: AsyncConnection, /, **options: typing.Unpack[EnqueueOptions]) -> OnAsync[P]: ...  # type: ignore[overload-overlap]

    @overload
    def on(self, connection: object, /, **options: typing.Unpack[EnqueueOptions]) -> OnSync[P]: ...

    def on(self, connection: Any = None, /, **options: typing.Unpack[EnqueueOptions]) -> Any:
        """The same task, enqueued on your connection, in its open transaction; with options, if you like.

        `await task.on(connection, key="order:1").enqueue(…)`; not awaited if the connection is synchronous.
        """
        if connection is None:
            raise InvalidInput("connection", "on() needs one; for options alone, write task.options(…)")
        chosen = self._with("on", options)
        caller = callers.caller(connection)
        door = OnAsync if caller.awaited else OnSync
        return door(caller, Maker(self._app.database, self._app.limits, self._definition, chosen))

    def _with(self, method: str, options: EnqueueOptions) -> Options:
        if unknown := options.keys() - Options.__dataclass_fields__.keys():
            raise InvalidInput(
                sorted(unknown)[0], f"is not an option of {method}(); it takes {', '.join(OPTION_NAMES)}"
            )
        return replace(self._options, **options)

    def upcast(self, *, from_version: int) -> Callable[[Upcast], Upcast]:
        """Register how a payload of `from_version` becomes one of the next version: `@task.upcast(from_version=1)`."""

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

    async def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue on a connection of our own; committed when it returns."""
        return await self._app.calls.enqueue(self._maker(), self._bind(arguments, keywords))

    async def enqueue_many(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        idempotency_keys: Iterable[str] | None = None,
        copy: bool | None = None,
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments, all or none. `copy`: use COPY; None: when there are very many."""
        maker = self._maker()
        return await self._app.calls.enqueue_many(maker, maker.orders(arguments, idempotency_keys), copy)

    def enqueue_sync(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """As `enqueue`, for code that does not await."""
        return self._app.calls.wait_for(self.enqueue(*arguments, **keywords))

    def enqueue_many_sync(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        idempotency_keys: Iterable[str] | None = None,
        copy: bool | None = None,
    ) -> list[Job]:
        """As `enqueue_many`, for code that does not await."""
        return self._app.calls.wait_for(self.enqueue_many(arguments, idempotency_keys=idempotency_keys, copy=copy))

    def _maker(self) -> Maker:
        if self._made is None:
            self._made = Maker(self._app.database, self._app.limits, self._definition, self._options)
        return self._made

    def _bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        return bind(self._definition, arguments, keywords)


class EnqueueOptions(typing.TypedDict, total=False):
    """The options of `Task.options` and `Task.on`."""

    key: str | None
    delay: Duration | None
    at: datetime | None
    queue: str | None
    priority: int | None
    max_attempts: int | None
    idempotency_key: str | None
    id: UUID | None
    headers: Mapping[str, str] | None


OPTION_NAMES = tuple(Options.__dataclass_fields__)


class Maker:
    """Turns arguments into orders: each is checked before it is sent."""

    def __init__(self, database: Any, limits: Limits, definition: Definition, options: Options) -> None:
        self.database = database
        self.limits = limits
        self.definition = definition
        self.options = options
        self.terms = self._terms()
        self.key = self._key("key")

    def _terms(self) -> Terms:
        options, task = self.options, self.definition
        if options.delay is not None and options.at is not None:
            raise InvalidInput("delay", "give delay or at, not both")
        if options.id is not None and not isinstance(options.id, UUID):
            raise InvalidInput("id", f"expected a UUID, got {type(options.id).__name__}")
        if task.ordered and not task.skips and (options.delay is not None or options.at is not None):
            raise InvalidInput(
                "delay" if options.delay is not None else "at",
                f"{task.kind} is ordered: a job that is due later would hold up its key until then; enqueue it when it "
                "is due, or let waiting jobs be skipped (on_failure='skip')",
            )
        return Terms(
            kind=task.kind,
            queue=check_name("queue", options.queue, self.limits) if options.queue is not None else task.queue,
            priority=_or_default("priority", options.priority, task.priority, PRIORITIES[0], PRIORITIES[-1]),
            delay=seconds(options.delay, "delay") if options.delay is not None else None,
            at=check_instant("at", options.at) if options.at is not None else None,
            max_attempts=_or_default("max_attempts", options.max_attempts, task.max_attempts, 1, 2**31 - 1),
            version=task.version,
            headers=_headers(options.headers, self.limits),
            ordered=task.ordered,
            skips=task.skips,
            own_id=options.id is not None,
        )

    def order(self, arguments: dict[str, Any]) -> Order:
        """One job."""
        return self._order(self.options.id or new_id(), arguments, self._key("idempotency_key"))

    def orders(self, many: Iterable[Mapping[str, Any]], idempotency_keys: Iterable[str] | None) -> Orders:
        """One job for each mapping of arguments."""
        if self.options.idempotency_key is not None or self.options.id is not None:
            raise InvalidInput("idempotency_key", "one key cannot stand for many jobs; pass idempotency_keys=[…]")
        rows = list(many)
        keys: list[str | None] = list(idempotency_keys) if idempotency_keys is not None else [None] * len(rows)
        if len(keys) != len(rows):
            raise InvalidInput("idempotency_keys", f"expected one for each of {len(rows)} jobs, got {len(keys)}")
        return Orders(self, rows, keys)

    def numbered(self, position: int, id: JobId, arguments: Mapping[str, Any], key: str | None) -> Order:
        """One job of many; what is wrong with it is said with its position."""
        try:
            if type(arguments) is not dict and not isinstance(arguments, Mapping):
                raise InvalidPayload(
                    "", f"expected arguments by name, such as {{'order_id': 1}}, got a {type(arguments).__name__}"
                )
            checked = check_key("idempotency_key", key, self.limits) if key is not None else None
            return self._order(id, bind(self.definition, (), arguments), checked)
        except InvalidInput as refused:
            field = f"[{position}].{refused.field}" if refused.field else f"[{position}]"
            raise type(refused)(field, refused.problem) from None

    def _order(self, id: UUID, arguments: dict[str, Any], idempotency_key: str | None) -> Order:
        text = payloads.encode(self.definition.kind, arguments, self.limits)
        try:
            self.definition.decoder.decode(text)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$.")
            raise InvalidPayload(path.rstrip("`") or "payload", message) from None
        return Order(id, text, self.key, idempotency_key)

    def _key(self, field: str) -> str | None:
        key = getattr(self.options, field)
        return check_key(field, key, self.limits) if key is not None else None


class Orders:
    """The orders of one call for many, made when they are needed and once: whoever asks again gets the same ids."""

    CHUNK = 100

    def __init__(self, maker: Maker, rows: list[Mapping[str, Any]], keys: list[str | None]) -> None:
        self._maker = maker
        self._rows = rows
        self._keys = keys
        self.keyed = any(key is not None for key in keys)
        self.made: list[Order] = []

    def __len__(self) -> int:
        return len(self._rows)

    def next(self, number: int = CHUNK) -> list[Order]:
        """Make some more of them; nothing, when all are made. After an error it has made none of these."""
        start = len(self.made)
        rows = self._rows[start : start + number]
        keys = self._keys[start : start + number]
        made = list(map(self._maker.numbered, range(start, start + len(rows)), new_ids(len(rows)), rows, keys))
        self.made += made
        return made

    def all(self) -> list[Order]:
        self.next(len(self))
        return self.made


def _or_default(field: str, value: int | None, default: int, low: int, high: int) -> int:
    return default if value is None else check_int(field, value, low, high)


def _headers(headers: Mapping[str, str] | None, limits: Limits) -> str | None:
    if headers is None:
        return None
    for part in (part for pair in dict(headers).items() for part in pair):
        if not isinstance(part, str):
            raise InvalidInput(
                "headers", f"expected text by text, such as {{'traceparent': '00-…'}}, got a {type(part).__name__}"
            )
    return payloads.encode_value("headers", dict(headers), limits)


class OnAsync(Generic[P]):
    """A task on a caller's asynchronous connection."""

    def __init__(self, caller: Any, maker: Maker) -> None:
        self._caller = caller
        self._maker = maker

    async def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        order = self._maker.order(bind(self._maker.definition, arguments, keywords))
        operation = enqueue.one(self._maker.database, order, self._maker.terms)
        return await cast(Awaitable[Job], self._caller.run(operation))

    async def enqueue_many(
        self, arguments: Iterable[Mapping[str, Any]], *, idempotency_keys: Iterable[str] | None = None
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments."""
        orders = self._maker.orders(arguments, idempotency_keys).all()
        made: list[Job] = []
        for operation in enqueue.many(self._maker.database, orders, self._maker.terms):
            made += await cast(Awaitable[list[Job]], self._caller.run(operation))
        return made


class OnSync(Generic[P]):
    """A task on a caller's synchronous connection."""

    def __init__(self, caller: Any, maker: Maker) -> None:
        self._caller = caller
        self._maker = maker

    def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue in the caller's open transaction: accepted exactly when it commits."""
        order = self._maker.order(bind(self._maker.definition, arguments, keywords))
        return cast(Job, self._caller.run(enqueue.one(self._maker.database, order, self._maker.terms)))

    def enqueue_many(
        self, arguments: Iterable[Mapping[str, Any]], *, idempotency_keys: Iterable[str] | None = None
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments."""
        orders = self._maker.orders(arguments, idempotency_keys).all()
        made: list[Job] = []
        for operation in enqueue.many(self._maker.database, orders, self._maker.terms):
            made += cast(list[Job], self._caller.run(operation))
        return made
