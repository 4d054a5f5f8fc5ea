"""The transactions in which handlers write, and the sessions that they have for it.

Each names its session after its attempt, so that whoever takes the row over can end it first (see `inbox.sessions`): a
process that is stopped, or a host that is silent, would else keep its locks as long as the session lives. If nobody is
left who could, the server ends a session that has idled in its transaction for longer than the attempt may take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from ..db import pooler
from ..db.database import Connection, Database, end_if_idle, in_one_line, name_session
from ..db.link import backoff
from ..inbox import sessions
from ..model.job import Claim
from .settings import WorkerSettings

log = logging.getLogger("holdfast.worker")

GIVE_UP = 5.0
"""Seconds to roll back or to put a connection back in order, after which it is dropped."""


class Unbegun(Exception):
    """There was no transaction to be had: the handler was not called."""


class Transactions:
    def __init__(self, database: Database, settings: WorkerSettings) -> None:
        self._database = database
        self._settings = settings
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._failures = 0
        self._alone = f"begin isolation level read committed; {end_if_idle(settings.deadline)}"

    @asynccontextmanager
    async def of(self, claim: Claim, timeout: float) -> AsyncIterator[Connection]:
        """The transaction of this attempt, which may take `timeout` seconds. Raises `Unbegun` instead of beginning."""
        async with self._begun(claim, timeout) as (connection, transaction):
            try:
                yield connection
            except BaseException:
                await _roll_back(connection, transaction)
                raise
            await transaction.commit()

    @asynccontextmanager
    async def _begun(self, claim: Claim, timeout: float) -> AsyncIterator[tuple[Connection, Any]]:
        try:
            connection = await self._acquire()
        except Exception as error:
            raise self._unbegun(error) from error
        try:
            try:
                transaction = await self._begin(connection, claim, timeout)
            except Exception as error:
                connection.terminate()
                raise self._unbegun(error) from error
            self._recovered()
            yield connection, transaction
        finally:
            await self._put_back(connection)

    async def _begin(self, connection: Connection, claim: Claim, timeout: float) -> Any:
        name, idle = sessions.name(claim.id, claim.generation), timeout + self._settings.grace
        transaction = connection.transaction(isolation="read_committed")
        async with asyncio.timeout(self._settings.deadline):
            await transaction.start()
            await connection.execute(f"{name_session(name)}; {end_if_idle(idle)}")
        return transaction

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """One statement by itself. The server commits it as soon as it is done, whatever has become of us."""
        sql, deadline = self._database.sql(room, name), self._settings.deadline
        connection = await self._acquire()
        try:
            if self._database.pooler:
                return await pooler.fetch(connection, self._alone, sql, arguments, deadline)
            return list(await connection.fetch(sql, *arguments, timeout=deadline))
        except BaseException:
            if connection.is_in_transaction():
                connection.terminate()
            raise
        finally:
            await self._put_back(connection)

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                async with asyncio.timeout(GIVE_UP):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def pause(self) -> None:
        """After `Unbegun`: so that a server which takes our claims, but no more sessions, is not asked all the time."""
        await asyncio.sleep(backoff(self._failures))

    def _unbegun(self, error: Exception) -> Unbegun:
        self._failures += 1
        if self._failures == 1:
            why = in_one_line(error)
            log.warning("no transaction for handlers: %s; handing their rows back until there is one", why)
        return Unbegun()

    def _recovered(self) -> None:
        if self._failures:
            log.info("transactions for handlers again, after %s that could not begin", self._failures)
            self._failures = 0

    async def _acquire(self) -> Connection:
        if self._pool is None:
            self._pool = self._database.pool("handler", max_size=self._settings.concurrency + 1)
        pool = await self._pool
        acquired: Any = await pool.acquire(timeout=self._settings.deadline)  # a proxy, which is all of a connection
        connection: Connection = acquired
        return connection

    async def _put_back(self, connection: Any) -> None:
        """What cannot be put in order is dropped; that is not the attempt's business, which may have committed."""
        if self._pool is None:
            return
        try:
            await self._pool.release(connection, timeout=GIVE_UP)
        except Exception as error:
            log.debug("a handler's connection was dropped: %s", in_one_line(error))


async def _roll_back(connection: Connection, transaction: Any) -> None:
    """Or drop the connection, which is the same to the server, but may take it longer to notice."""
    try:
        async with asyncio.timeout(GIVE_UP):
            await transaction.rollback()
    except BaseException as error:
        connection.terminate()
        if not isinstance(error, Exception):
            raise
