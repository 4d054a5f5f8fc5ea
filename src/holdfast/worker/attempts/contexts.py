"""Run a handler's coroutine in a context of its own, and notice when it blocks the event loop.

A hand is one task for many attempts, so without this, a context variable that one handler sets would be seen by the
next ones. A task for each attempt would cost 5.7 µs; a context, with the first step run at once, costs 0.4.

The time of a first step is not taken here, because most handlers need no other one: `Hands` knows it anyway.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from time import perf_counter
from typing import Any

from ...model.job import Claim
from ..logs import current
from .running import Running, Steps

BLOCKS = 1.0
"""Seconds that one step of a handler may take, before a warning names it."""

Blocked = Callable[[Claim, float], None]

_DONE = object()


def first_step(running: Running, coroutine: Coroutine[Any, Any, Any]) -> Steps | None:
    """Begin; None if it has ended, and its result is in `running`. Otherwise pass this to `other_steps`."""
    variables = copy_context()
    steps = _keep_result(running, coroutine).__await__()
    # With `next` and a default, the usual case, a handler that waits for nothing, needs no exception.
    waits_for = variables.run(next, steps, _DONE)
    return None if waits_for is _DONE else (steps, variables, waits_for)


async def _keep_result(running: Running, coroutine: Coroutine[Any, Any, Any]) -> None:
    current.set(running.claim)
    running.result = await coroutine


@types.coroutine
def other_steps(running: Running, began: Steps, blocked: Blocked) -> Generator[Any, Any, None]:
    """As a task of asyncio does it: pass on what the coroutine waits for, and what is thrown in.

    `blocked` is called after each step in which it kept the loop for too long, the first one too.
    """
    claim = running.claim
    steps, variables, waits_for = began
    running.waited = True
    if (took := perf_counter() - running.began) > BLOCKS:
        blocked(claim, took)
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
        at = perf_counter()
        try:
            waits_for = variables.run(step, value)
        except StopIteration:
            return
        finally:
            del value  # an error refers to this frame
            if (took := perf_counter() - at) > BLOCKS:
                blocked(claim, took)
