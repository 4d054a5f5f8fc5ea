"""The transactions in which handlers write, and their sessions.

Each session is named after its attempt, so that the sweep, or the supervisor, can end it before others take the row
(see `inbox.sessions`). Otherwise a process that is stopped, or a host that is silent, would keep its locks as long as
the session lives. If nothing ends it, the server does, when it has idled in its transaction for longer than the attempt
may take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from ...db import pooler
from ...db.database import Connection, Database, end_if_idle, in_one_line, name_session
from ...db.link import backoff
from ...inbox import sessions
from ...model.availability import Availability
from ...model.job import Claim
from ...model.occurrences import Occurrences, Part
from ..settings import WorkerSettings

log = logging.getLogger("holdfast.worker")

GIVE_UP = 5.0
"""Seconds to roll back, or to close the connections; after that they are dropped."""

SETTLED = 1.0
"""Seconds without a failure after which an outage is over. A server that shuts down ends its sessions one by one, so
one transaction may begin while the next cannot."""


ATTEMPT = "holdfast.attempt"
"""A setting of the transaction: the name of its attempt. It is gone once the transaction has ended."""


class Unbegun(Exception):
    """No transaction could be started: the handler was not called."""


if TYPE_CHECKING:
    _Base = asyncpg.Connection[asyncpg.Record]
else:
    _Base = asyncpg.Connection


class _HandlerConnection(_Base):
    """A connection that sends more with the next BEGIN, in the same round trip and within a deadline."""

    _opening: tuple[str, float] | None = None

    def begin_with(self, opening: str, deadline: float) -> None:
        self._opening = opening, deadline

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        if self._opening is not None and query.startswith("BEGIN"):
            (opening, timeout), self._opening = self._opening, None
            query = f"{query} {opening}"
        return await super().execute(query, *args, timeout=timeout)


class Transactions:
    def __init__(self, database: Database, settings: WorkerSettings, occurrences: Occurrences) -> None:
        self._database = database
        self._settings = settings
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._availability = Availability(Part.TRANSACTIONS, occurrences)
        self._failures_in_a_row = 0
        self._settling: asyncio.TimerHandle | None = None
        self._single = f"begin isolation level read committed; {end_if_idle(settings.deadline)}"

    @asynccontextmanager
    async def of(self, claim: Claim, timeout: float) -> AsyncIterator[Connection]:
        """The transaction of this attempt, which may take `timeout` seconds. Raises `Unbegun` if it cannot begin."""
        connection, transaction = await self._begin(claim, timeout)
        try:
            try:
                yield connection
            except BaseException:
                await _roll_back(connection, transaction)
                raise
            await transaction.commit()
        finally:
            await self._put_back(connection)

    async def _begin(self, claim: Claim, timeout: float) -> tuple[Connection, Any]:
        name, idle = sessions.name(claim), timeout + self._settings.grace
        connection: Any = None
        try:
            connection = await self._acquire()
            opening = f"{name_session(name)}; {end_if_idle(idle)}; set local {ATTEMPT} = '{name}'"
            connection.begin_with(opening, self._settings.deadline)
            transaction = connection.transaction(isolation="read_committed")
            await transaction.start()
        except BaseException as error:
            if connection is not None:
                _drop(connection)
                await self._put_back(connection)
            if not isinstance(error, Exception):
                raise
            raise self._unbegun(error) from error
        self._begun()
        return connection, transaction

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run a single statement. The server commits it when it is done, even if this process is gone by then."""
        sql, deadline = self._database.sql(room, name), self._settings.deadline
        connection = await self._acquire()
        try:
            if self._database.pooler:
                return await pooler.fetch(connection, self._single, sql, arguments, deadline)
            return list(await connection.fetch(sql, *arguments, timeout=deadline))
        except BaseException:
            if self._database.pooler:  # it may be in a transaction
                _drop(connection)
            raise
        finally:
            await self._put_back(connection)

    async def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        if self._pool is not None:
            try:
                async with asyncio.timeout(GIVE_UP):
                    await self._pool.close()
            except TimeoutError:
                self._pool.terminate()

    async def pause(self) -> None:
        """Wait after `Unbegun`: a server that accepts claims, but no more sessions, must not be asked all the time."""
        await asyncio.sleep(backoff(self._failures_in_a_row))

    def _unbegun(self, error: Exception) -> Unbegun:
        self._failures_in_a_row += 1
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self._availability.failed(error)
        return Unbegun()

    def _begun(self) -> None:
        self._failures_in_a_row = 0
        if self._availability.failures and self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(SETTLED, self._recovered)

    def _recovered(self) -> None:
        self._settling = None
        self._availability.succeeded()

    async def _acquire(self) -> Connection:
        if self._pool is None:
            self._pool = self._database.pool(
                "handler", max_size=self._settings.concurrency + 1, connection_class=_HandlerConnection
            )
        pool = await self._pool
        acquired: Any = await pool.acquire()  # a proxy with all methods of a connection
        connection: Connection = acquired
        return connection

    async def _put_back(self, connection: Any) -> None:
        """Return the connection to the pool, or drop it. An error does not fail the attempt: it may have committed."""
        assert self._pool is not None
        try:
            await self._pool.release(connection)
        except Exception as error:
            log.debug("a handler's connection was dropped: %s", in_one_line(error))


async def _roll_back(connection: Connection, transaction: Any) -> None:
    """Roll back, or drop the connection, which has the same effect once the server notices."""
    try:
        async with asyncio.timeout(GIVE_UP):
            await transaction.rollback()
    except BaseException as error:
        _drop(connection)
        if not isinstance(error, Exception):
            raise


def _drop(connection: Connection) -> None:
    with suppress(asyncpg.InterfaceError):  # it has broken, and left the pool already
        connection.terminate()
