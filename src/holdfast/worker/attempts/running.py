"""An attempt in progress, as seen by its hand and by the code that may stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context as Variables
from typing import Any

import msgspec

from ...context import Context
from ...errors import Cancelled, LeaseLost, Timeout
from ...model.job import Claim
from ...model.outcome import Outcome
from ...model.tracing import Tracing
from .deciding import Draining, Stop

Steps = tuple[Generator[Any, Any, None], Variables, Any]
"""The steps of a coroutine, the context in which they run, and what the last one waits for."""


def _begun() -> None:
    """Its timeout has begun already."""


def _unwatched(left: float | None) -> None:
    """Nothing watches it."""


class Running(msgspec.Struct, eq=False):
    """An attempt in progress. A struct, because every attempt makes one: a dataclass takes three times as long."""

    claim: Claim
    deadline: float
    hand: asyncio.Task[None]
    cancellable: bool
    began: float
    """Of `time.perf_counter`: when it was taken, or when its handler was called, if that is later."""
    begins: Callable[[], None] = _begun
    """Called when its timeout begins, if that is later: when there is a process or a transaction for it."""
    watch_steps: Callable[[float | None], None] = _unwatched
    """Of a workflow: called when a step begins or ends that cannot be stopped, with the seconds that are left until the
    first one that runs is over its timeout; None: none runs."""
    context: Context | None = None
    reason: Stop | None = None
    tell_steps: Callable[[LeaseLost | Cancelled | Timeout], None] | None = None
    """Of a workflow: tells the steps that run. If it was cancelled, that is all: its running step is finished and
    recorded, because it must be undone."""
    given_up: bool = False
    """Was it told to stop, and the worker ends without waiting for it any longer?"""
    busy: float = 0.0
    """Of a workflow: the seconds that its steps took."""
    waited: bool = False
    """Has an async handler waited for anything? If not, it ran in one step."""
    steps: Steps | None = None
    """Of a handler on the loop that has waited: the steps that are left."""
    result: Any = None
    written: Outcome | None = None
    """Its outcome, if the attempt has written its ending itself."""
    tracing: Tracing | None = None
    """Of a workflow: what surrounds its steps, if it is traced."""

    def stop(self, reason: Stop) -> None:
        """Tell the handler to stop. Its hand is cancelled; a thread can only be told through its context."""
        if self.reason is not None:
            return
        if self.tell_steps is not None and not isinstance(reason, Draining):
            self.tell_steps(reason)
            if isinstance(reason, Cancelled):
                return
        self.reason = reason
        if self.context is not None and not isinstance(reason, Draining):
            self.context._tell(reason)
        if self.cancellable:
            self.hand.cancel()
