"""Middleware: your code around every attempt. (The lifespan, around every worker, is only checked here.)

An ending can only get worse. Whatever a middleware does by accident, an attempt that failed stays failed:

    the handler      the middleware                     the attempt
    returns          returns, with any value            ends as the handler said
    returns          raises                             ends with that error
    raises           returns: it swallowed the error    ends with the handler's error
    raises           raises another error               ends with that one, unless it would give the attempt back, or
                                                        the handler was told to stop
    is not called    returns                            fails
    is not called    raises                             ends with that error

The same holds for each middleware and those inside it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from .context import Context
from .definitions import Definition, Runs
from .errors import Cancelled, ConfigurationError, LeaseLost, Timeout


class CallNext(Protocol):
    """Runs the handler, or the next middleware. Returns the handler's result or raises its error. Call it once.

    ```python
    @hf.middleware(only="async")
    async def announced(ctx: Context, call_next: CallNext) -> None:
        print("begins", ctx.job_id)
        await call_next()
    ```
    """

    async def __call__(self) -> Any: ...


class CallNextSync(Protocol):
    """As `CallNext`, in middleware for handlers that are not async.

    ```python
    @hf.middleware(only="sync")
    def announced_sync(ctx: Context, call_next: CallNextSync) -> None:
        print("begins", ctx.job_id)
        call_next()
    ```
    """

    def __call__(self) -> Any: ...


Only = Literal["async", "sync"]
Made = TypeVar("Made")
_AN = {"async": "an async", "sync": "a sync"}
_STOPS = (LeaseLost, Cancelled, Timeout, asyncio.CancelledError)


class Layer(msgspec.Struct, frozen=True):
    """A registered middleware."""

    function: Callable[..., Any]
    covers: Only
    only: bool
    """Is it meant to leave out the other handlers?"""
    ours: bool = False
    """Does it come with Holdfast? Then it covers nothing of yours."""

    @classmethod
    def of(cls, function: Callable[..., Any], only: Only | None) -> Layer:
        name = getattr(function, "__name__", repr(function))
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{name}: a middleware calls call_next, and does not yield")
        try:
            inspect.signature(function).bind(None, None)
        except TypeError as error:
            raise ConfigurationError(f"{name}: expected a function of (ctx, call_next): {error}") from None
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        covers: Only = "async" if is_async else "sync"
        if only not in (None, covers):
            raise ConfigurationError(f"{name}: only={only!r}, but it is {_AN[covers]} function")
        return cls(function, covers, only is not None)


def covering(definition: Definition) -> Only:
    """Which middleware runs around this task."""
    return "async" if definition.runs in (Runs.ON_LOOP, Runs.IN_TRANSACTION) else "sync"


def check_coverage(layers: Iterable[Layer], definitions: Iterable[Definition]) -> None:
    """Refuse a task around which no middleware would run, unless all of them say that they leave it out."""
    there = [layer for layer in layers if not layer.ours]
    covered = {layer.covers for layer in there}
    required = [layer for layer in there if not layer.only]
    for definition in definitions:
        if definition.runs is Runs.AS_FLOW:
            continue
        needs = covering(definition)
        if required and needs not in covered:
            name = getattr(required[0].function, "__name__", repr(required[0].function))
            raise ConfigurationError(
                f"{definition.kind} is {_AN[needs]} handler, and no middleware runs around it: {name} is "
                f"{_AN[required[0].covers]} function. Add {_AN[needs]} middleware, or write "
                f"@hf.middleware(only={required[0].covers!r})"
            )


def surround(definition: Definition, layers: Iterable[Layer]) -> Definition:
    """The task with its middleware around its handler. A workflow has none: its code is replayed, not attempted."""
    if definition.runs is Runs.AS_FLOW:
        return definition
    covers = covering(definition)
    functions = [layer.function for layer in layers if layer.covers == covers]
    if not functions:
        return definition
    handler, wants_context = definition.function, definition.wants_context

    @wraps(handler)
    async def surrounded(ctx: Context, /, **arguments: Any) -> Any:
        context = (ctx,) if wants_context else ()
        return await _run(ctx, functions, 0, lambda: handler(*context, **arguments))

    @wraps(handler)
    def surrounded_sync(ctx: Context, /, **arguments: Any) -> Any:
        context = (ctx,) if wants_context else ()
        return _run_sync(ctx, functions, 0, lambda: handler(*context, **arguments))

    return replace(definition, function=surrounded if covers == "async" else surrounded_sync, wants_context=True)


def check_lifespan(name: str, decorator: str, lifespan: Made) -> Made:
    """Refuse a function that makes no context manager."""
    if lifespan is not None and not callable(lifespan):
        raise ConfigurationError(f"{name}: expected a function that makes a context manager, got {lifespan!r}")
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
        raise ConfigurationError(f"{name}: it yields, so it needs @{decorator} of contextlib")
    if inspect.iscoroutinefunction(lifespan):
        raise ConfigurationError(f"{name}: it is a coroutine function; let it yield, under @{decorator} of contextlib")
    return lifespan


class _Next:
    """What is inside a middleware, and what became of it."""

    __slots__ = ("called", "error", "inside", "value")

    def __init__(self, inside: Callable[[], Any]) -> None:
        self.inside = inside
        self.called = False
        self.value: Any = None
        self.error: BaseException | None = None

    def begin(self) -> None:
        if self.called:
            raise RuntimeError("call_next was called twice; an attempt runs its handler once")
        self.called = True

    def result(self, function: Callable[..., Any], error: BaseException | None) -> Any:
        """After the middleware, which raised `error` or returned: the handler's result, or the worse of two errors."""
        if error is None and not self.called:
            raise RuntimeError(
                f"{getattr(function, '__name__', function)} did not call call_next: the handler did not run"
            )
        if error is None or (self.error is not None and _is_better(error, self.error)):
            error = self.error
        if error is not None:
            raise error
        return self.value


class _NextAsync(_Next):
    async def __call__(self) -> Any:
        self.begin()
        try:
            self.value = await self.inside()
        except BaseException as error:
            self.error = error
            raise
        return self.value


class _NextSync(_Next):
    def __call__(self) -> Any:
        self.begin()
        try:
            self.value = self.inside()
        except BaseException as error:
            self.error = error
            raise
        return self.value


def _is_better(error: BaseException, than: BaseException) -> bool:
    """Would this error hide one that matters more: that the attempt must stop, or that it has failed?"""
    return isinstance(than, _STOPS) or bool(getattr(error, "gives_attempt_back", False))


async def _run(ctx: Context, functions: Sequence[Callable[..., Any]], at: int, handler: Callable[[], Any]) -> Any:
    """Run the middleware from `at` on, and the handler inside."""
    if at + 1 == len(functions):
        call_next = _NextAsync(handler)
    else:
        call_next = _NextAsync(lambda: _run(ctx, functions, at + 1, handler))
    raised = None
    try:
        await functions[at](ctx, call_next)
    except BaseException as error:
        raised = error
    try:
        return call_next.result(functions[at], raised)
    finally:
        del raised, call_next  # an error refers to this frame


def _run_sync(ctx: Context, functions: Sequence[Callable[..., Any]], at: int, handler: Callable[[], Any]) -> Any:
    """As `_run`."""
    if at + 1 == len(functions):
        call_next = _NextSync(handler)
    else:
        call_next = _NextSync(lambda: _run_sync(ctx, functions, at + 1, handler))
    raised = None
    try:
        functions[at](ctx, call_next)
    except BaseException as error:
        raised = error
    try:
        return call_next.result(functions[at], raised)
    finally:
        del raised, call_next
