"""The functions that a workflow calls as steps: how they run, what they take, and how their results come back."""

from __future__ import annotations

import inspect
import typing
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import msgspec

from ..context import Context, TxContext
from ..definitions import Definition, Runs
from ..errors import ConfigurationError, InvalidPayload
from ..model import payload
from ..parameters import from_plain, result_type

Decode = Callable[[bytes | str], Any]


class StepFunction(NamedTuple):
    """A function as a step."""

    call: Callable[..., Any]
    runs: Runs
    wants_context: bool
    decode: Decode
    """Its result, from JSON."""
    definition: Definition | None
    """If it is a task."""


class _Shape(NamedTuple):
    """What the code of a function says about it: the same for each function object that is made from that code."""

    runs: Runs
    wants_context: bool
    decode: Decode


_known: dict[int, tuple[Any, StepFunction]] = {}
"""Functions of modules, and tasks, by their id. They are kept, so their ids stay theirs."""
_shapes: dict[Any, _Shape] = {}
_MOST = 4096


def step_function(function: Any) -> StepFunction:
    """How this function runs as a step."""
    known = _known.get(id(function))
    if known is not None:
        return known[1]
    read = _by_code(function)
    if len(_known) < _MOST and _stays(function, read):
        _known[id(function)] = (function, read)
    return read


def _stays(function: Any, read: StepFunction) -> bool:
    """Does it live as long as the process? What is made inside another function may be made anew in each run. So may
    what a decorator returns: it has the name of a function of a module, and refers to something."""
    if "<locals>" in getattr(read.call, "__qualname__", "<locals>"):
        return False
    return read.definition is not None or (type(function) is FunctionType and function.__closure__ is None)


def _by_code(function: Any) -> StepFunction:
    """How it runs, as is known of its code: a workflow may define functions inside, anew in each run, and these must
    neither be read again nor be kept alive with all that they refer to."""
    plain = function.__func__ if type(function) is MethodType else function
    if type(plain) is not FunctionType or plain.__dict__:
        return _read(function)
    try:
        key = (plain.__code__, plain is function, *plain.__annotations__.items())
        shape = _shapes.get(key)
    except TypeError:  # an annotation that cannot be hashed
        return _read(function)
    if shape is None:
        if len(_shapes) >= _MOST:
            _shapes.clear()
        shape = _shapes[key] = _shape(function)
    return StepFunction(function, shape.runs, shape.wants_context, shape.decode, None)


def _read(function: Any) -> StepFunction:
    definition = getattr(function, "_definition", None)
    if isinstance(definition, Definition):
        if definition.runs in (Runs.IN_PROCESS, Runs.AS_FLOW):
            how = "it is a workflow" if definition.runs is Runs.AS_FLOW else "process=True"
            raise ConfigurationError(f"step: {definition.kind} cannot be a step ({how}); call it with flow.child()")
        return StepFunction(
            definition.function, definition.runs, definition.wants_context, _decoder(definition.function), definition
        )
    shape = _shape(function)
    return StepFunction(function, shape.runs, shape.wants_context, shape.decode, None)


def _shape(function: Any) -> _Shape:
    called = function
    while isinstance(called, partial):
        called = called.func
    if not callable(called) or inspect.isclass(called):
        raise ConfigurationError(f"step: expected a function or a task, got {function!r}")
    if not inspect.isroutine(called):  # an object that can be called
        called = called.__call__
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigurationError(f"step: a step must return, and this one yields: {function!r}")
    hints = _hints(called)
    context = _context(function, hints)
    in_transaction = context is not None and issubclass(context, TxContext)
    if not inspect.iscoroutinefunction(called):
        if in_transaction:
            raise ConfigurationError(f"step: a function that takes TxContext must be async, got {function!r}")
        runs = Runs.IN_THREAD
    else:
        runs = Runs.IN_TRANSACTION if in_transaction else Runs.ON_LOOP
    return _Shape(runs, context is not None, decoder_of(result_type(hints.get("return", Any))))


def _context(function: Any, hints: dict[str, Any]) -> type[Context] | None:
    """The kind of context that its first parameter takes."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # of C
        return None
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return None
    hint = hints.get(first.name)
    return hint if isinstance(hint, type) and issubclass(hint, Context) else None


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _decoder(function: Any) -> Decode:
    """Reads a result as its annotation says."""
    return decoder_of(result_type(_hints(function).get("return", Any)))


def decoder_of(hint: Any) -> Decode:
    """Reads JSON as this type."""
    try:
        return _decoder_of(hint)
    except TypeError:  # it cannot be hashed, as Annotated[int, {}]
        return _new_decoder(hint)


def _new_decoder(hint: Any) -> Decode:
    try:
        return msgspec.json.Decoder(hint, dec_hook=from_plain).decode
    except (TypeError, ValueError):  # JSON cannot say this: plain values come back
        return msgspec.json.Decoder().decode


_decoder_of = lru_cache(maxsize=4096)(_new_decoder)


def result_of(function: Any) -> Decode:
    """Reads the result of a child: a task or a workflow."""
    definition = getattr(function, "_definition", None)
    return _decoder(definition.function if isinstance(definition, Definition) else function)


def encoded(name: str, value: Any) -> str | None:
    """A result as JSON text. Raises InvalidPayload if it cannot be stored."""
    try:
        return payload.encode_value("result", value)
    except InvalidPayload as refused:
        raise InvalidPayload("result", f"of step {name} cannot be stored: {refused.problem}") from None


def digest(arguments: tuple[Any, ...]) -> int | None:
    """A number that changes with the arguments; None if they are no JSON."""
    if not arguments:
        return 0
    try:
        return zlib.crc32(_encode(arguments))
    except Exception:  # whatever a dataclass with its own ideas raises
        return None


_encode = msgspec.json.Encoder(order="deterministic").encode
