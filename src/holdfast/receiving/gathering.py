"""Requests that arrive at the same time are stored in one commit.

A request that comes alone is stored at once. While a commit is on its way, others gather, and the next commit takes
them all. One commit at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ..errors import Unreachable
from .arrivals import Arrival
from .storing import Received

MOST = 100
"""Messages of one commit."""


class Gathering:
    """For one event loop."""

    def __init__(self, store: Callable[[Sequence[Arrival]], Awaitable[list[Received]]]) -> None:
        self._store = store
        self._waiting: list[tuple[Arrival, asyncio.Future[Received]]] = []
        self._working: asyncio.Task[None] | None = None

    async def keep(self, arrival: Arrival) -> Received:
        """Return when it is committed."""
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, future))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="holdfast receive")
        return await future

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            try:
                received = await self._store([arrival for arrival, _ in batch])
            except Unreachable as error:  # those that arrived since would wait as long, and fail too
                _fail([*batch, *self._waiting], error)
                self._waiting = []
            except Exception as error:
                _fail(batch, error)
            except BaseException:
                for _, future in batch:
                    future.cancel()
                raise
            else:
                for (_, future), each in zip(batch, received, strict=True):
                    if not future.done():
                        future.set_result(each)


def _fail(batch: Sequence[tuple[Arrival, asyncio.Future[Received]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
