"""The few connections for calls without a caller's connection, per event loop.

A pool in which taking a connection and returning it does not go through the event loop: an enqueue is one statement,
and asyncpg's pool took a fifth of its time. The connection that was used last is used next, so that the others become
idle and are closed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from ..errors import InvalidInput
from .database import Connection, Database, cut_off

T = TypeVar("T")

MOST = 10
IDLE = 300.0
"""Seconds after which an unused connection is closed."""


class Connections:
    """At most MOST connections, for one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._idle: list[tuple[Connection, float]] = []
        """With the time since when they are idle; the latest is last."""
        self._open = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pruning: asyncio.TimerHandle | None = None
        self._closed = False

    async def use(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do the work on a connection. After an interruption, the connection is not used again. After an error of the
        server, or one in the caller's input, it is."""
        connection = await self._take()
        try:
            result = await work(connection)
        except (asyncpg.PostgresError, InvalidInput):
            self._give_back(connection)
            raise
        except BaseException:
            self._drop(connection)
            raise
        self._give_back(connection)
        return result

    async def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._closed = True
        if self._pruning is not None:
            self._pruning.cancel()
            self._pruning = None
        while self._idle:
            connection, _ = self._idle.pop()
            self._open -= 1
            await connection.close(timeout=5)

    def abandon(self) -> None:
        """End the sessions of idle connections whose event loop is closed."""
        while self._idle:
            cut_off(self._idle.pop()[0])

    async def _take(self) -> Connection:
        while True:
            while self._idle:
                connection, _ = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < MOST:
                return await self._connect()
            await self._wait()

    async def _connect(self) -> Connection:
        self._open += 1
        try:
            return await self._database.connect("calls")
        except BaseException:
            self._vacate()
            raise

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._wake_next()  # it was our turn, but we were cancelled
            raise

    def _give_back(self, connection: Connection) -> None:
        if self._closed or connection.is_closed() or connection.is_in_transaction():
            self._drop(connection)
            return
        self._idle.append((connection, time.monotonic()))
        if self._pruning is None:
            self._pruning = asyncio.get_running_loop().call_later(IDLE, self._prune)
        self._wake_next()

    def _drop(self, connection: Connection) -> None:
        connection.terminate()
        self._vacate()

    def _vacate(self) -> None:
        self._open -= 1
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _prune(self) -> None:
        """Close connections that have been idle for long."""
        self._pruning = None
        now = time.monotonic()
        while self._idle and now - self._idle[0][1] >= IDLE:
            connection, _ = self._idle.pop(0)
            self._open -= 1
            connection.terminate()
        if self._idle:
            due = self._idle[0][1] + IDLE - now
            self._pruning = asyncio.get_running_loop().call_later(due, self._prune)
