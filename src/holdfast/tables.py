"""Workflows as a table of steps: a name, a handler, and the name of the next step.

A table compiles to the code of a workflow: its steps are recorded, retried, undone and shown as those of any other.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from .definitions import Definition, define
from .errors import ConfigurationError, InvalidInput
from .flow.flow import Flow, StepOptions
from .flow.functions import step_function
from .model.backoff import Backoff, RetryFunction, policy
from .model.durations import Duration, seconds
from .model.flow import UNDO_PREFIX
from .model.limits import check_int, check_name
from .parameters import from_plain
from .workflows import WorkflowOptions, add_version, check_options

Next = str | Sequence[str | None] | None
"""The name of the next step; several, of which the handler returns one; None: the workflow ends."""

_NEXT: Final[Any] = "next"
"""The default of `on_timeout`: as `next`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a table: a handler, which is run once, and what comes next.

    ```python
    Step("receipt", send_receipt, next="shipped", max_attempts=3)
    ```
    """

    name: str
    """Recorded; keep it while instances are live."""
    handler: Callable[..., Any]
    """A function or a task. It takes arguments of the instance, and results of earlier steps by their names."""
    next: Next = None
    """The name of the next step; None: the workflow ends. Of several, the handler returns the name, or None."""
    undo: Callable[..., Any] | None = field(default=None, kw_only=True)
    """Called with the same arguments if the instance is cancelled or fails later."""
    max_attempts: int | None = field(default=None, kw_only=True)
    """Attempts until the step has failed; 5, or as its task says."""
    timeout: Duration | None = field(default=None, kw_only=True)
    """Of one attempt; 1 h, or as its task says."""
    retry: Backoff | RetryFunction | None = field(default=None, kw_only=True)
    """When a failed attempt is retried."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait for a signal in a table. Handlers that take a parameter of this name get the signal's payload.

    ```python
    Wait("shipped", timeout="3d", next="receipt", on_timeout="remind")
    ```
    """

    name: str
    """That of the signal."""
    type: Any = Any
    """Of the payload."""
    timeout: Duration | None = field(default=None, kw_only=True)
    """How long to wait; None: until the signal comes."""
    next: str | None = field(default=None, kw_only=True)
    """The step after the signal; None: the workflow ends."""
    on_timeout: str | None = field(default=_NEXT, kw_only=True)
    """The step after the timeout; None: the workflow ends; left out: as `next`."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """A wait for a time in a table. It survives restarts and holds no worker.

    ```python
    Sleep("grace", "15m", next="receipt")
    ```
    """

    name: str
    """Recorded."""
    delay: Duration
    """How long."""
    next: str | None = None
    """The step after it; None: the workflow ends."""


Row = Step | Wait | Sleep


def compiled(
    name: str, version: int, steps: Sequence[Row], earlier: Mapping[int, Sequence[Row]], options: WorkflowOptions
) -> Definition:
    """The workflow of a table, with those of its earlier versions."""
    check_options(options)
    if given := sorted(options.keys() & {"name", "version"}):
        raise ConfigurationError(f"{given[0]}: of a table, is given by position: hf.table(name, version, [Step(…), …])")
    try:
        kind = check_name("name", name)
        everything: dict[str, Any] = {**options, "name": kind, "version": version}
        definition = define(_code(kind, steps), flow=Flow, **everything)
        for number, rows in earlier.items():
            add_version(definition, number, _code(kind, rows))
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None
    return definition


def _code(kind: str, steps: Sequence[Row]) -> Callable[..., Any]:
    """The code of a table: an async function with a Flow, and the arguments that its handlers take."""
    rows = _checked(kind, steps)
    takes = {row.name: _names(kind, row) for row in rows.values() if isinstance(row, Step)}
    parameters, hints = _arguments(kind, rows)
    first = next(iter(rows))

    async def run(flow: Flow, /, **arguments: Any) -> Any:
        values, result = dict(arguments), None
        at: str | None = first
        while at is not None:
            row = rows[at]
            if isinstance(row, Step):
                result = await flow.step(row.name, row.handler, *(values.get(key) for key in takes[at]), **_how(row))
                values[at] = result
                at = _chosen(kind, row, result)
            elif isinstance(row, Sleep):
                await flow.sleep(row.name, row.delay)
                at = row.next
            else:  # with wait_any, a signal without a payload is told from a timeout
                came = await flow.wait_any(row.name, [row.name], timeout=row.timeout)
                values[at] = _payload(row, came[1]) if came is not None else None
                at = row.next if came is not None or row.on_timeout is _NEXT else row.on_timeout
        return result

    run.__name__ = run.__qualname__ = kind
    run.__doc__ = f"A table of steps: {', '.join(rows)}."
    run.__module__ = _module(rows)
    run.__annotations__ = {"flow": Flow, **hints, "return": Any}
    flow = inspect.Parameter("flow", inspect.Parameter.POSITIONAL_ONLY, annotation=Flow)
    run.__signature__ = inspect.Signature([flow, *parameters])  # type: ignore[attr-defined]
    return run


def _how(row: Step) -> StepOptions:
    given: StepOptions = {}
    if row.undo is not None:
        given["undo"] = row.undo
    if row.max_attempts is not None:
        given["max_attempts"] = row.max_attempts
    if row.timeout is not None:
        given["timeout"] = row.timeout
    if row.retry is not None:
        given["retry"] = row.retry
    return given


def _payload(row: Wait, plain: Any) -> Any:
    return plain if row.type is Any or plain is None else msgspec.convert(plain, row.type, dec_hook=from_plain)


def _chosen(kind: str, row: Step, result: Any) -> str | None:
    if row.next is None or isinstance(row.next, str):
        return row.next
    if result not in row.next:
        raise ConfigurationError(
            f"{kind}: step {row.name} has several next steps, so its handler returns the name of one: expected one of "
            f"{_listed(row.next)}, got {result!r}"
        )
    return typing.cast(str | None, result)


# Checking


def _checked(kind: str, steps: Sequence[Row]) -> dict[str, Row]:
    """The rows by name. Raises for names and ways that cannot be right."""
    rows: dict[str, Row] = {}
    for row in steps:
        if not isinstance(row, Step | Wait | Sleep):
            raise ConfigurationError(f"{kind}: expected Step(…), Wait(…) or Sleep(…), got {row!r}")
        name = check_name("name", row.name)
        if name.startswith(UNDO_PREFIX):
            raise ConfigurationError(f"{kind}: the name of a step must not start with {UNDO_PREFIX!r}, got {name!r}")
        if name in rows:
            raise ConfigurationError(f"{kind}: there are two steps {name!r}; each needs its own name")
        _check_options(kind, row)
        rows[name] = row
    if not rows:
        raise ConfigurationError(f"{kind}: expected a list of steps, got none")
    for row in rows.values():
        for target in _targets(row):
            if target is not None and target not in rows:
                raise ConfigurationError(
                    f"{kind}: after {row.name} comes {target!r}, and there is no such step; expected one of "
                    f"{', '.join(rows)}, or None to end"
                )
    _check_ways(kind, rows)
    return rows


def _check_options(kind: str, row: Row) -> None:
    where = f"{kind}: {row.name}"
    try:
        if isinstance(row, Sleep):
            seconds(row.delay, "delay")
        elif row.timeout is not None:
            seconds(row.timeout, "timeout")
        elif isinstance(row, Wait) and row.on_timeout is not _NEXT:
            raise InvalidInput("on_timeout", "needs a timeout; otherwise the wait lasts until the signal comes")
        if isinstance(row, Step):
            policy(row.retry)
            if row.max_attempts is not None:
                check_int("max_attempts", row.max_attempts, 1, 2**31 - 1)
            if not isinstance(row.next, str | None) and not list(row.next):
                raise InvalidInput("next", "expected the name of a step, several of them, or None, got an empty list")
    except InvalidInput as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _targets(row: Row) -> Iterator[str | None]:
    if isinstance(row, Step) and not isinstance(row.next, str | None):
        yield from row.next
    else:
        yield typing.cast(str | None, row.next)
    if isinstance(row, Wait) and row.on_timeout is not _NEXT:
        yield row.on_timeout


def _check_ways(kind: str, rows: Mapping[str, Row]) -> None:
    """Every step must be reached from the first one, and must lead to an end."""
    first = next(iter(rows))
    reached = _closure({first}, lambda name: (each for each in _targets(rows[name]) if each is not None))
    if lost := [name for name in rows if name not in reached]:
        raise ConfigurationError(
            f"{kind}: {_listed(lost)} cannot be reached from the first step, {first!r}; name it as the next of another "
            "step"
        )
    ends = {name for name, row in rows.items() if None in _targets(row)}
    before: dict[str, list[str]] = {name: [] for name in rows}
    for name, row in rows.items():
        for target in _targets(row):
            if target is not None:
                before[target].append(name)
    ending = _closure(ends, lambda name: before[name])
    if endless := [name for name in rows if name not in ending]:
        raise ConfigurationError(
            f"{kind}: no end can be reached from {_listed(endless)}; give one of the steps no next, or None "
            "among several"
        )


def _closure(start: Iterable[str], more: Callable[[str], Iterable[str]]) -> set[str]:
    found, left = set(start), list(start)
    while left:
        for each in more(left.pop()):
            if each not in found:
                found.add(each)
                left.append(each)
    return found


def _listed(names: Iterable[str | None]) -> str:
    return ", ".join(repr(name) for name in names)


# Arguments


def _taken(kind: str, row: Step, handler: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a handler, without its context."""
    function = step_function(handler)
    parameters = list(inspect.signature(_plain(handler)).parameters.values())[1 if function.wants_context else 0 :]
    for each in parameters:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY):
            raise ConfigurationError(
                f"{kind}: {row.name}: expected a handler with named parameters, which it gets by position; got {each}"
            )
    return parameters


def _plain(handler: Any) -> Any:
    definition = getattr(handler, "_definition", None)
    return definition.function if isinstance(definition, Definition) else handler


def _names(kind: str, row: Step) -> tuple[str, ...]:
    names = tuple(each.name for each in _taken(kind, row, row.handler))
    if row.undo is not None:
        undoes = tuple(each.name for each in _taken(kind, row, row.undo))
        if undoes != names:
            raise ConfigurationError(
                f"{kind}: {row.name}: undo gets the arguments of the handler: expected the parameters "
                f"({', '.join(names)}), got ({', '.join(undoes)})"
            )
    return names


def _arguments(kind: str, rows: Mapping[str, Row]) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """What an instance is started with: all that the handlers take, except results of steps."""
    found: dict[str, inspect.Parameter] = {}
    hints: dict[str, Any] = {}
    for row in rows.values():
        if not isinstance(row, Step):
            continue
        of_handler = _hints(kind, row)
        for each in _taken(kind, row, row.handler):
            if each.name in rows:
                continue
            hint = of_handler.get(each.name, Any)
            if each.name in found and hints[each.name] != hint and Any not in (hint, hints[each.name]):
                raise ConfigurationError(
                    f"{kind}: {row.name} takes {each.name} as {hint}, and another step as {hints[each.name]}; expected "
                    "the same type, because both get the argument of the instance"
                )
            if each.name not in found or hints[each.name] is Any:
                hints[each.name] = hint
            default = each.default if each.name not in found else found[each.name].default
            needed = each.default is each.empty or default is each.empty
            found[each.name] = inspect.Parameter(
                each.name, each.KEYWORD_ONLY, default=each.empty if needed else default, annotation=hints[each.name]
            )
    return list(found.values()), hints


def _hints(kind: str, row: Step) -> dict[str, Any]:
    function = _plain(row.handler)
    while isinstance(function, partial):
        function = function.func
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(f"{kind}: {row.name}: its annotations cannot be read: {error}") from None
    except TypeError:
        return {}


def _module(rows: Mapping[str, Row]) -> str:
    """Where its handlers are, so that it counts as declared there."""
    handlers = [_plain(row.handler) for row in rows.values() if isinstance(row, Step)]
    return str(getattr(handlers[0], "__module__", None) or "") if handlers else __name__
