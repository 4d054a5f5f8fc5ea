"""An attempt in progress, as seen by its hand and by the code that may stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...context import Context
from ...model.job import Claim
from .deciding import Draining, Stop


@dataclass(slots=True)
class Running:
    """An attempt in progress."""

    claim: Claim
    deadline: float
    hand: asyncio.Task[None]
    cancellable: bool
    began: float
    """Of `time.perf_counter`: when it was taken, or when its handler was called, if that is later."""
    begins: Callable[[], None] = lambda: None
    """Called when its timeout begins, if that is later: when there is a process or a transaction for it."""
    context: Context | None = None
    reason: Stop | None = None
    waited: bool = False
    """Has an async handler waited for anything? If not, it ran in one step."""
    result: Any = None

    def stop(self, reason: Stop) -> None:
        """Tell the handler to stop. Its hand is cancelled; a thread can only be told through its context."""
        if self.reason is not None:
            return
        self.reason = reason
        if self.context is not None and not isinstance(reason, Draining):
            self.context._tell(reason)
        if self.cancellable:
            self.hand.cancel()
