"""What a task is: its name, its handler, its options, and the arguments that it takes."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

import msgspec

from .context import Context, Handler, TxContext
from .errors import ConfigurationError, InvalidInput, InvalidPayload
from .model.backoff import Backoff, RetryFunction, policy
from .model.durations import Duration, seconds
from .model.limits import PRIORITIES, check_flag, check_int, check_name
from .parameters import Convert, from_plain, is_pydantic_field, read

OnFailure = typing.Literal["block", "skip"]
"""What a failed job means for the next ones of its ordered key: they wait for its retry, or run meanwhile."""

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts a payload of one version to the next version."""


class Runs(Enum):
    """How the attempts of a task run."""

    ON_LOOP = "on the worker's event loop"
    IN_TRANSACTION = "on the event loop, in a transaction that commits with the ending"
    IN_THREAD = "in a thread of the worker"
    IN_PROCESS = "in a separate process"


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
    runs: Runs
    wants_context: bool
    arguments: type[msgspec.Struct]
    names: tuple[str, ...]
    """Of its arguments."""
    name_set: frozenset[str]
    required: tuple[str, ...]
    """Those of them that have no default."""
    decoder: msgspec.json.Decoder[msgspec.Struct]
    converts: Mapping[str, Convert]
    """By argument: what JSON cannot represent, such as a set, as its annotation says."""
    ordered: bool | None = None
    skips: bool | None = None
    retry: Backoff | None = None
    max_snoozes: int | None = None
    unique_arguments: bool | None = None
    unique_done: bool | None = None
    make_key: Callable[..., str] | None = None
    key_names: tuple[str, ...] = ()
    """The arguments that `make_key` takes."""
    upcasts: dict[int, Upcast] = field(default_factory=dict)

    @property
    def app(self) -> str:
        """The package that declares it."""
        return (getattr(self.function, "__module__", None) or "").partition(".")[0]

    @property
    def argument_types(self) -> dict[str, str]:
        """Of its arguments, by name."""
        fields = msgspec.structs.fields(self.arguments)
        return {each.name: _type_name(each.type) for each in fields if each.name != "type_"}

    @property
    def stoppable(self) -> bool:
        """Can an attempt be stopped from outside? A thread cannot."""
        return self.runs is not Runs.IN_THREAD

    @property
    def oldest(self) -> int:
        """The oldest payload version that the upcasts can convert."""
        version = self.version
        while version - 1 in self.upcasts:
            version -= 1
        return version

    def decode(self, payload: str, version: int) -> dict[str, Any]:
        """The arguments of a stored payload, converted to this version and checked against the types."""
        try:
            if version < self.version:
                plain = msgspec.json.decode(payload)
                for step in range(version, self.version):
                    plain = {"type": self.kind, **self.upcasts[step]({k: v for k, v in plain.items() if k != "type"})}
                decoded = msgspec.convert(plain, self.arguments, dec_hook=from_plain)
            else:
                decoded = self.decoder.decode(payload)
        except msgspec.ValidationError as error:
            raise InvalidPayload("payload", f"does not fit {self.kind}: {error}") from None
        arguments = msgspec.structs.asdict(decoded)
        del arguments["type_"]
        return arguments


class TaskOptions(typing.TypedDict, total=False):
    """The options of `Holdfast.task`. `define` has their defaults."""

    name: str | None
    """Stored with every job, so keep it when the function is renamed; None: the function's name."""
    queue: str
    max_attempts: int
    priority: int
    """0 (first) to 3 (last)."""
    timeout: Duration
    """Of one attempt."""
    version: int
    """Of its payloads: raise it when the arguments change, and add an `upcast` for jobs in flight."""
    ordered: bool | None
    """One at a time and in order, per queue and key; None: as the queue says."""
    on_failure: OnFailure | None
    """While a failed job of an ordered key waits for its retry, the others of the key wait too ('block') or run
    ('skip')."""
    process: bool
    """Run it in a separate process, for work that keeps a core busy or may crash."""
    retry: Backoff | RetryFunction | None
    """When a failed attempt is retried, and when not; None: the installation's backoff."""
    max_snoozes: int | None
    """How often its handler may snooze a job, before it becomes a dead letter; None: as the settings say, 1,000."""
    unique_arguments: bool | None
    """If a job with the same arguments has not started yet, find it instead of adding another."""
    unique_done: bool | None
    """Find it until it has ended, not only until it has started."""
    key: Callable[..., str] | None
    """Makes the key of a job from its arguments: `key=lambda order_id: f"order:{order_id}"`."""


def define(
    function: Handler,
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
    retry: Backoff | RetryFunction | None = None,
    max_snoozes: int | None = None,
    unique_arguments: bool | None = None,
    unique_done: bool | None = None,
    key: Callable[..., str] | None = None,
) -> Definition:
    """Read a handler's signature; reject what cannot be stored or called later."""
    _check_function(function)
    kind = check_name("name", name or getattr(function, "__name__", "<lambda>"))
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
    for parameter in parameters[1:]:
        if _has_context(hints.get(parameter.name)):
            raise ConfigurationError(f"{kind}: the context must be the first parameter, got it as {parameter.name!r}")
    runs = _runs(kind, inspect.iscoroutinefunction(function), context, bool(check_flag("process", process)))
    arguments, converts = _arguments_type(kind, parameters[1:] if context else parameters, hints)
    names = tuple(name for name in arguments.__struct_fields__ if name != "type_")
    return Definition(
        kind=kind,
        function=function,
        queue=check_name("queue", queue),
        max_attempts=check_int("max_attempts", max_attempts, 1, 2**31 - 1),
        priority=check_int("priority", priority, PRIORITIES[0], PRIORITIES[-1]),
        timeout=_positive("timeout", timeout),
        version=check_int("version", version, 1, 2**31 - 1),
        runs=runs,
        wants_context=context is not None,
        arguments=arguments,
        names=names,
        name_set=frozenset(names),
        required=tuple(entry.name for entry in msgspec.structs.fields(arguments) if entry.required),
        decoder=msgspec.json.Decoder(arguments, dec_hook=from_plain),
        converts=converts,
        ordered=check_flag("ordered", ordered),
        skips=skips(on_failure),
        retry=policy(retry),
        max_snoozes=check_int("max_snoozes", max_snoozes, 0, 2**31 - 1) if max_snoozes is not None else None,
        unique_arguments=check_flag("unique_arguments", unique_arguments),
        unique_done=check_flag("unique_done", unique_done),
        make_key=key,
        key_names=_key_names(kind, key, names),
    )


def _key_names(kind: str, key: Callable[..., str] | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the arguments the function takes that makes a job's key."""
    if key is None:
        return ()
    if not callable(key):
        raise ConfigurationError(f"{kind}: key: expected a function of the arguments, got {key!r}")
    wanted = tuple(inspect.signature(key).parameters)
    if unknown := [name for name in wanted if name not in names]:
        raise ConfigurationError(
            f"{kind}: key: its function takes {unknown[0]!r}, which is no argument of the task; expected some of "
            f"{', '.join(names) or 'none'}"
        )
    return wanted


def _runs(kind: str, is_async: bool, context: type[Context] | None, process: bool) -> Runs:
    wants_tx = context is not None and issubclass(context, TxContext)
    if wants_tx and not is_async:
        raise ConfigurationError(f"{kind}: a handler that takes TxContext must be async")
    if process and is_async:
        raise ConfigurationError(
            f"{kind}: process=True is for plain functions; an async one runs on the worker's event loop"
        )
    if is_async:
        return Runs.IN_TRANSACTION if wants_tx else Runs.ON_LOOP
    return Runs.IN_PROCESS if process else Runs.IN_THREAD


def _check_function(function: object) -> None:
    if isinstance(function, str):
        raise ConfigurationError(f"task: expected a function, got text; write @hf.task(name={function!r})")
    if inspect.isclass(function) or not callable(function):
        got = f"the class {function.__name__}" if inspect.isclass(function) else f"a {type(function).__name__}"
        raise ConfigurationError(f"task: expected a function, sync or async, got {got}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        name = getattr(function, "__name__", "task")
        raise ConfigurationError(f"{name}: a handler must return, and this one yields: calling it would run nothing")


def skips(on_failure: OnFailure | None) -> bool | None:
    if on_failure not in (None, "block", "skip"):
        raise InvalidInput("on_failure", f"expected 'block' or 'skip', got {on_failure!r}")
    return None if on_failure is None else on_failure == "skip"


def _positive(field: str, duration: Duration) -> float:
    if (number := seconds(duration, field)) == 0:
        raise InvalidInput(field, f"expected a duration above zero, got {duration!r}")
    return number


def _context_of(parameter: inspect.Parameter, hints: dict[str, Any]) -> type[Context] | None:
    hint = hints.get(parameter.name)
    if isinstance(hint, type) and issubclass(hint, Context):
        return hint
    if _has_context(hint):
        raise ConfigurationError(f"{parameter.name}: expected Context or TxContext as its annotation, got {hint}")
    return None


def _has_context(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Context):
        return True
    return any(_has_context(part) for part in typing.get_args(hint))


def _arguments_type(
    kind: str, parameters: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> tuple[type[msgspec.Struct], dict[str, Convert]]:
    converts: dict[str, Convert] = {}
    fields: list[Any] = [("type_", str, msgspec.field(default="", name="type"))]
    for parameter in parameters:
        if parameter.name in ("type", "type_"):
            raise ConfigurationError(
                f"{kind}: a parameter cannot be named {parameter.name!r}; that name carries the kind"
            )
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(f"{kind}: expected named parameters only, got {parameter}")
        if is_pydantic_field(parameter.default):
            raise ConfigurationError(
                f"{kind}: {parameter.name} has a pydantic Field as its default; write Annotated[…, Field(…)]"
            )
        hint, convert = read(kind, parameter.name, hints.get(parameter.name, Any))
        if convert is not None:
            converts[parameter.name] = convert
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, msgspec.field(default_factory=partial(_same, parameter.default))))
    try:
        struct = msgspec.defstruct(f"{kind} arguments", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(struct, dec_hook=from_plain)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{kind}: its parameters cannot be stored as JSON: {error}") from None
    return struct, converts


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _same(value: Any) -> Any:
    return value


def bind(definition: Definition, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name; rejects unknown and missing ones."""
    names = definition.names
    if not arguments and type(keywords) is dict and keywords.keys() == definition.name_set and not definition.converts:
        return keywords
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
    for name in definition.required:
        if name not in bound:
            raise InvalidPayload(name, f"is missing; {definition.kind} needs it")
    for name, convert in definition.converts.items():
        if name in bound:
            bound[name] = convert(bound[name])
    return bound
