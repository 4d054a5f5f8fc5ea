"""The lifespan of an application: entered before a worker's first claim, left after its drain.

It lives in one task. Task groups and cancel scopes must be left by the task that has entered them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..context import NO_STATE
from ..errors import ConfigurationError
from .exit_codes import is_shortage

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


class LifespanFailed(ConfigurationError):
    """It could not be entered. A restart would not help."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"lifespan: could not be entered: {type(error).__name__}: {error}")
        self.error = error


class LifespanTask:
    def __init__(self, lifespan: Lifespan | None, on_failure: Callable[[BaseException], None]) -> None:
        self._lifespan = lifespan
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> Any:
        """Return its value. May be called again after `leave`."""
        if self._lifespan is None:
            return NO_STATE
        self._over = asyncio.Event()
        entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(self._lifespan, entered), name="holdfast lifespan")
        try:
            await asyncio.wait([self._task, entered], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            raise
        if entered.done():
            self._task.add_done_callback(self._ended)
            return entered.result()
        task, self._task = self._task, None
        error = task.exception() if not task.cancelled() else asyncio.CancelledError()
        assert error is not None
        if is_shortage(error):
            raise error
        raise LifespanFailed(error) from error

    async def _live(self, lifespan: Lifespan, entered: asyncio.Future[Any]) -> None:
        async with lifespan() as state:
            entered.set_result(state)
            await self._over.wait()

    async def leave(self) -> None:
        if self._task is not None:
            self._over.set()
            await asyncio.wait([self._task])
            self._task = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
