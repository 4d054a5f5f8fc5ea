"""Run a handler's coroutine in a context of its own, and notice when it blocks the event loop.

A hand is one task for many attempts, so without this, a context variable that one handler sets would be seen by the
next ones. A task for each attempt would cost 5.7 µs; a context, with the first step run at once, costs 0.4.

The time of a first step is not taken here, because most handlers need no other one: `Hands` knows it anyway.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context as Variables
from contextvars import copy_context
from time import perf_counter
from typing import Any

from ...model.job import Claim
from ..logs import current
from .running import Running

BLOCKS = 1.0
"""Seconds that one step of a handler may take, before a warning names it."""

Blocked = Callable[[Claim, float], None]

_DONE = object()


async def in_own_context(running: Running, coroutine: Coroutine[Any, Any, Any], blocked: Blocked) -> Any:
    """The result of a handler. `blocked` is called after each later step in which it kept the loop for too long."""
    variables = copy_context()
    steps = _keep_result(running, coroutine).__await__()
    # With `next` and a default, the usual case, a handler that waits for nothing, needs no exception.
    waits_for = variables.run(next, steps, _DONE)
    if waits_for is not _DONE:
        running.waited = True
        if (took := perf_counter() - running.began) > BLOCKS:
            blocked(running.claim, took)
        await _other_steps(running.claim, steps, variables, waits_for, blocked)
    return running.result


async def _keep_result(running: Running, coroutine: Coroutine[Any, Any, Any]) -> None:
    current.set(running.claim)
    running.result = await coroutine


@types.coroutine
def _other_steps(
    claim: Claim, steps: Generator[Any, Any, None], variables: Variables, waits_for: Any, blocked: Blocked
) -> Generator[Any, Any, None]:
    """As a task of asyncio does it: pass on what the coroutine waits for, and what is thrown in."""
    while True:
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        try:
            value = yield waits_for
        except GeneratorExit:
            variables.run(steps.close)
            raise
        except BaseException as error:
            step, value = steps.throw, error
        began = perf_counter()
        try:
            waits_for = variables.run(step, value)
        except StopIteration:
            return
        finally:
            del value  # an error refers to this frame
            if (took := perf_counter() - began) > BLOCKS:
                blocked(claim, took)
