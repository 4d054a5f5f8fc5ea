"""Tasks: functions under stable names, and the ways to enqueue them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload
from uuid import UUID

import msgspec

from .context import Context, Handler, TxContext
from .db.callers import AsyncConnection
from .errors import ConfigurationError, InvalidInput, InvalidPayload
from .inbox import enqueue
from .inbox.enqueue import Order, Terms
from .model import payload as payloads
from .model.durations import Duration, seconds
from .model.ids import new_id
from .model.job import Job
from .model.limits import PRIORITIES, Limits, check_instant, check_int, check_key, check_name

if TYPE_CHECKING:
    from .app import Holdfast

P = ParamSpec("P")
R = TypeVar("R")

Upcast = Callable[[dict[str, Any]], dict[str, Any]]


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


@dataclass(frozen=True, slots=True)
class Definition:
    """A task as the worker sees it."""

    kind: str
    function: Handler
    queue: str
    max_attempts: int
    priority: int
    timeout: float
    version: int
    wants_context: bool
    wants_tx: bool
    is_async: bool
    arguments: type[msgspec.Struct]
    upcasts: dict[int, Upcast] = field(default_factory=dict)

    @property
    def oldest(self) -> int:
        """The oldest payload version that can still be brought up to date."""
        version = self.version
        while version - 1 in self.upcasts:
            version -= 1
        return version

    def decode(self, payload: str, version: int) -> dict[str, Any]:
        """The arguments of a stored payload, brought up to this version and checked against the types."""
        try:
            if version < self.version:
                plain = msgspec.json.decode(payload)
                for step in range(version, self.version):
                    plain = {"type": self.kind, **self.upcasts[step]({k: v for k, v in plain.items() if k != "type"})}
                decoded = msgspec.convert(plain, self.arguments, dec_hook=_from_plain)
            else:
                decoded = msgspec.json.decode(payload, type=self.arguments, dec_hook=_from_plain)
        except msgspec.ValidationError as error:
            raise InvalidPayload("payload", f"does not fit {self.kind}: {error}") from None
        return {name: getattr(decoded, name) for name in self.arguments.__struct_fields__ if name != "type_"}


def define(
    function: Handler,
    *,
    name: str | None,
    queue: str,
    max_attempts: int,
    priority: int,
    timeout: Duration,
    version: int,
) -> Definition:
    """Read a handler's signature; refuse what cannot be stored or called later."""
    kind = check_name("name", name or function.__name__)
    if kind == "<lambda>" or "<locals>" in kind:
        raise ConfigurationError("name: a task needs a stable name; pass name='…'")
    parameters = list(inspect.signature(function).parameters.values())
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"{kind}: its annotations are read when it is registered, and {error}; "
            "import that name at run time, not only under TYPE_CHECKING"
        ) from None
    context = _context_of(parameters[0], hints) if parameters else None
    is_async = inspect.iscoroutinefunction(function)
    wants_tx = context is not None and issubclass(context, TxContext)
    if wants_tx and not is_async:
        raise ConfigurationError(f"{kind}: a handler that takes TxContext must be async")
    return Definition(
        kind=kind,
        function=function,
        queue=check_name("queue", queue),
        max_attempts=check_int("max_attempts", max_attempts, 1, 2**31 - 1),
        priority=check_int("priority", priority, PRIORITIES[0], PRIORITIES[-1]),
        timeout=_positive("timeout", timeout),
        version=check_int("version", version, 1, 2**31 - 1),
        wants_context=context is not None,
        wants_tx=wants_tx,
        is_async=is_async,
        arguments=_arguments_type(kind, parameters[1:] if context else parameters, hints),
    )


def _positive(field: str, duration: Duration) -> float:
    if (number := seconds(duration, field)) == 0:
        raise InvalidInput(field, f"expected a duration above zero, got {duration!r}")
    return number


def _context_of(parameter: inspect.Parameter, hints: dict[str, Any]) -> type[Context] | None:
    hint = hints.get(parameter.name)
    return hint if isinstance(hint, type) and issubclass(hint, Context) else None


def _arguments_type(kind: str, parameters: Sequence[inspect.Parameter], hints: dict[str, Any]) -> type[msgspec.Struct]:
    fields: list[Any] = [("type_", str, msgspec.field(default="", name="type"))]
    for parameter in parameters:
        if parameter.name in ("type", "type_"):
            raise ConfigurationError(
                f"{kind}: a parameter cannot be named {parameter.name!r}; that name carries the kind"
            )
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(f"{kind}: expected named parameters only, got {parameter}")
        hint = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, msgspec.field(default_factory=partial(_same, parameter.default))))
    try:
        struct = msgspec.defstruct(f"{kind} arguments", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(struct, dec_hook=_from_plain)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{kind}: its parameters cannot be stored as JSON: {error}") from None
    return struct


def _same(value: Any) -> Any:
    return value


def _from_plain(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"a {kind.__name__} cannot be read from JSON")


class Task(Generic[P, R]):
    """A function that can be enqueued. Called directly, it is the function as it was written."""

    def __init__(self, app: Holdfast, definition: Definition, options: Options = Options()) -> None:  # noqa: B008
        self._app = app
        self._definition = definition
        self._options = options
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

    @overload
    def on(self, connection: AsyncConnection, /, **options: typing.Unpack[OnOptions]) -> OnAsync[P]: ...  # type: ignore[overload-overlap]

    @overload
    def on(self, connection: None = None, /, **options: typing.Unpack[OnOptions]) -> Task[P, R]: ...

    @overload
    def on(self, connection: object, /, **options: typing.Unpack[OnOptions]) -> OnSync[P]: ...

    def on(self, connection: Any = None, /, **options: typing.Unpack[OnOptions]) -> Any:
        """The same task, enqueued on the caller's connection, in its open transaction, or with other options."""
        if unknown := options.keys() - Options.__dataclass_fields__.keys():
            raise InvalidInput(sorted(unknown)[0], f"is not an option of on(); it takes {', '.join(OPTION_NAMES)}")
        chosen = replace(self._options, **options)
        if connection is None:
            return Task(self._app, self._definition, chosen)
        caller = self._app.caller(connection)
        door = OnAsync if caller.awaited else OnSync
        return door(caller, Maker(self._app.database, self._app.limits, self._definition, chosen))

    async def enqueue(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """Enqueue on a connection of our own; committed when it returns."""
        return await self._app.enqueue_own(self._maker(), self._bind(arguments, keywords))

    async def enqueue_many(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        idempotency_keys: Iterable[str] | None = None,
        copy: bool | None = None,
    ) -> list[Job]:
        """Enqueue one job per mapping of arguments, all or none. `copy`: use COPY; None: when there are very many."""
        maker = self._maker()
        return await self._app.enqueue_many_own(maker, maker.orders(arguments, idempotency_keys), copy)

    def enqueue_sync(self, *arguments: P.args, **keywords: P.kwargs) -> Job:
        """As `enqueue`, for code that does not await."""
        return self._app.portal_run(self._app.enqueue_own(self._maker(), self._bind(arguments, keywords)))

    def enqueue_many_sync(
        self,
        arguments: Iterable[Mapping[str, Any]],
        *,
        idempotency_keys: Iterable[str] | None = None,
        copy: bool | None = None,
    ) -> list[Job]:
        """As `enqueue_many`, for code that does not await."""
        return self._app.portal_run(self.enqueue_many(arguments, idempotency_keys=idempotency_keys, copy=copy))

    def _maker(self) -> Maker:
        return Maker(self._app.database, self._app.limits, self._definition, self._options)

    def _bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        return bind(self._definition, arguments, keywords)


class OnOptions(typing.TypedDict, total=False):
    """The options of `Task.on`."""

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


def bind(definition: Definition, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name; refuses unknown and missing ones."""
    names = [name for name in definition.arguments.__struct_fields__ if name != "type_"]
    if len(arguments) > len(names):
        raise InvalidPayload("arguments", f"{definition.kind} takes {len(names)}, got {len(arguments)}")
    bound = dict(zip(names, arguments, strict=False))
    for name, value in keywords.items():
        if name not in names:
            raise InvalidPayload(
                str(name), f"is not an argument of {definition.kind}; it takes {', '.join(names) or 'none'}"
            )
        if name in bound:
            raise InvalidPayload(name, "was given twice")
        bound[name] = value
    for entry in msgspec.structs.fields(definition.arguments):
        if entry.required and entry.name not in bound:
            raise InvalidPayload(entry.name, f"is missing; {definition.kind} needs it")
    return bound


class Maker:
    """Turns arguments into orders: everything is checked before anything is sent."""

    def __init__(self, database: Any, limits: Limits, definition: Definition, options: Options) -> None:
        self.database = database
        self.limits = limits
        self.definition = definition
        self.options = options
        self.terms = self._terms()

    def _terms(self) -> Terms:
        options, task = self.options, self.definition
        if options.delay is not None and options.at is not None:
            raise InvalidInput("delay", "give delay or at, not both")
        if options.id is not None and not isinstance(options.id, UUID):
            raise InvalidInput("id", f"expected a UUID, got {type(options.id).__name__}")
        return Terms(
            kind=task.kind,
            queue=check_name("queue", options.queue, self.limits) if options.queue is not None else task.queue,
            priority=_or_default("priority", options.priority, task.priority, PRIORITIES[0], PRIORITIES[-1]),
            delay=seconds(options.delay, "delay") if options.delay is not None else None,
            at=check_instant("at", options.at) if options.at is not None else None,
            max_attempts=_or_default("max_attempts", options.max_attempts, task.max_attempts, 1, 2**31 - 1),
            version=task.version,
            headers=_headers(options.headers, self.limits),
            own_id=options.id is not None,
        )

    def order(self, arguments: dict[str, Any]) -> Order:
        options = self.options
        text = payloads.encode(self.definition.kind, arguments, self.limits)
        try:
            msgspec.json.decode(text, type=self.definition.arguments, dec_hook=_from_plain)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$.")
            raise InvalidPayload(path.rstrip("`") or "payload", message) from None
        return Order(
            id=options.id or new_id(),
            payload=text,
            key=check_key("key", options.key, self.limits) if options.key is not None else None,
            idempotency_key=check_key("idempotency_key", options.idempotency_key, self.limits)
            if options.idempotency_key is not None
            else None,
        )

    def orders(self, many: Iterable[Mapping[str, Any]], idempotency_keys: Iterable[str] | None) -> list[Order]:
        if self.options.idempotency_key is not None or self.options.id is not None:
            raise InvalidInput("idempotency_key", "one key cannot stand for many jobs; pass idempotency_keys=[…]")
        rows = list(many)
        keys: list[str | None] = list(idempotency_keys) if idempotency_keys is not None else [None] * len(rows)
        if len(keys) != len(rows):
            raise InvalidInput("idempotency_keys", f"expected one for each of {len(rows)} jobs, got {len(keys)}")
        return [self._numbered(position, *pair) for position, pair in enumerate(zip(rows, keys, strict=True))]

    def _numbered(self, position: int, arguments: Mapping[str, Any], idempotency_key: str | None) -> Order:
        if not isinstance(arguments, Mapping):
            raise InvalidPayload(
                f"[{position}]",
                f"expected arguments by name, such as {{'order_id': 1}}, got a {type(arguments).__name__}",
            )
        try:
            order = self.order(bind(self.definition, (), dict(arguments)))
            if idempotency_key is None:
                return order
            return replace(order, idempotency_key=check_key("idempotency_key", idempotency_key, self.limits))
        except InvalidInput as refused:
            raise type(refused)(f"[{position}].{refused.field}", refused.problem) from None


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
        orders = self._maker.orders(arguments, idempotency_keys)
        made: enqueue.Made = {}
        for operation in enqueue.many(self._maker.database, orders, self._maker.terms):
            made |= await cast(Awaitable[enqueue.Made], self._caller.run(operation))
        return [made[order.id] for order in orders]


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
        orders = self._maker.orders(arguments, idempotency_keys)
        made: enqueue.Made = {}
        for operation in enqueue.many(self._maker.database, orders, self._maker.terms):
            made |= cast(enqueue.Made, self._caller.run(operation))
        return [made[order.id] for order in orders]
