"""An attempt under way, as its hand and whoever may stop it see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ...context import Context
from ...model.job import Claim
from .deciding import Draining, Stop


@dataclass(slots=True)
class Running:
    """An attempt under way."""

    claim: Claim
    deadline: float
    hand: asyncio.Task[None]
    cancellable: bool
    begins: Callable[[], None] = lambda: None
    """Called when its time begins, if that is later: it waits for a process, or for a transaction."""
    context: Context | None = None
    reason: Stop | None = None

    def stop(self, reason: Stop) -> None:
        """Tell the handler to end; its hand is cancelled, but a thread can only be told."""
        if self.reason is not None:
            return
        self.reason = reason
        if self.context is not None and not isinstance(reason, Draining):
            self.context._tell(reason)
        if self.cancellable:
            self.hand.cancel()
