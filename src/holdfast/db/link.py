"""One connection that reconnects by itself; every call has a deadline on this side.

The server's timeouts do not help on a half-open connection: only a deadline here, after which the socket is dropped,
frees the caller. A call whose connection broke raises `Unreachable`. Whether the call took effect is then unknown, and
the caller decides whether a retry is safe.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import asyncpg

from ..errors import Contended, Unreachable
from . import pooler
from .database import PIN_PLANS, Connection, Database, cut_off, end_if_idle, in_one_line

log = logging.getLogger("holdfast.db")

DEADLINE = 30.0
SILENT = 2.0
"""Seconds that a session may wait for the next round trip of a transaction. Only our event loop runs between two trips;
if it is blocked, the transaction ends, so that others get what it has locked."""

_BROKEN_CLASSES = ("08", "57", "53", "25006", "25P03")
"""SQLSTATEs after which we reconnect, because this connection or this server may be unusable: connection, shutdown, out
of resources, read-only (a primary that became a standby), ended because we were idle in a transaction."""
_AWAY = ("08", "57P01", "57P02", "57P03")
"""Those of them with which the server, or a pooler, serves nobody: no connection, shutdown, crash, not yet started. The
others may affect us alone: a timeout or a limit of our role, a standby that the others have left."""
_RETRY_STATES = {"40001", "40P01", "55P03", "53200"}
"""Serialization, deadlock, lock not available, out of memory (mostly for locks): the connection is still good."""


def translate(error: BaseException) -> BaseException:
    """Return the error that callers handle: Contended, Unreachable, or the error itself."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        if state in _RETRY_STATES or _moved(error):
            return Contended(in_one_line(error))
        if state.startswith(_BROKEN_CLASSES):
            return Unreachable(in_one_line(error), cut_off=not state.startswith(_AWAY))
        return error
    if isinstance(error, TimeoutError):
        return Unreachable("no answer within the deadline", silent=True)
    if isinstance(error, asyncpg.InternalClientError):  # asyncpg's own state after a lost connection
        return Unreachable("the connection was lost during a call")
    if isinstance(error, (OSError, asyncpg.InterfaceError)):
        return Unreachable(in_one_line(error))
    return error


def _moved(error: asyncpg.PostgresError) -> bool:
    """Was the partition of a row made while the row was on its way to the default one? The next try finds it."""
    return isinstance(error, asyncpg.CheckViolationError) and error.constraint_name is None


def backoff(failures: int) -> float:
    """Return the seconds before the next try to reach the server: 0.05 to 2, with jitter."""
    return float(min(2.0, 0.05 * 2 ** min(failures, 6))) * random.uniform(0.5, 1.0)


class Link:
    """A connection for one purpose. Calls are serial."""

    def __init__(self, database: Database, purpose: str, planner: bool = True, deadline: float = DEADLINE) -> None:
        self.database = database
        self.purpose = purpose
        self.connects = 0
        """How often it has connected. A change means a new session, perhaps on another server."""
        self._planner = planner
        self._opening = "; ".join(["begin", end_if_idle(min(deadline, SILENT)), *([PIN_PLANS] if planner else [])])
        self._deadline = deadline
        self._connection: Connection | None = None
        self._dropped = False
        """Was the last connection lost, and not closed because nothing needed it?"""
        self._turn = asyncio.Lock()

    async def fetch(self, sql: str, *arguments: Any, deadline: float | None = None) -> list[asyncpg.Record]:
        """Run one statement and commit it."""
        async with self._turn:
            try:
                connection = self._connection or await self._connect()
                if self.database.pooler:
                    return await pooler.fetch(connection, self._opening, sql, arguments, deadline or self._deadline)
                return await connection.fetch(sql, *arguments, timeout=deadline or self._deadline)
            except BaseException as error:
                translated = translate(error)
                if not isinstance(error, asyncpg.PostgresError) or isinstance(translated, Unreachable):
                    self.drop()
                if translated is error:
                    raise
                raise translated from error

    async def run(self, room: str, name: str, *arguments: Any, deadline: float | None = None) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql`."""
        return await self.fetch(self.database.sql(room, name), *arguments, deadline=deadline)

    async def keep_trying(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Like `run`, for statements that are safe to retry: retries through outages until the server answers."""
        failures = 0
        while True:
            try:
                return await self.run(room, name, *arguments)
            except (Unreachable, Contended) as error:
                if failures == 0:
                    log.warning("%s: %s; trying again", self.purpose, error)
                failures += 1
                await asyncio.sleep(backoff(failures))

    async def _connect(self) -> Connection:
        self._connection = await self.database.connect(self.purpose, planner=self._planner, timeout=self._deadline)
        self.connects += 1
        if self._dropped:
            self._dropped = False
            log.info("%s: reconnected", self.purpose)
        return self._connection

    def drop(self) -> None:
        """Drop the connection without closing it cleanly; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._dropped = True
            connection.terminate()

    def abandon(self) -> None:
        """End the session, whose event loop is closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            cut_off(connection)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=5)
            except Exception:
                connection.terminate()
