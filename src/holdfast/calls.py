"""Calls of our own: on our own connections, with patience, and with errors in our own words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from .db.connections import Connections
from .db.database import COMMAND_TIMEOUT, Connection, Database, end_if_idle
from .db.link import backoff, translate
from .db.portal import Portal
from .errors import Contended, InvalidInput, SchemaError, Unreachable
from .inbox import copying, enqueue
from .model.job import Job
from .probes import probe
from .schema import migrate

if TYPE_CHECKING:
    from .tasks import Maker, Orders

T = TypeVar("T")

COPY_FROM = 500
"""Rows from which `enqueue_many` uses COPY by itself: a third less work for the server, for one more trip."""
COPY_SLOWEST = 1000
"""Rows a second that a server is given time for, beyond what any call is given."""
UNKNOWN_TRIES = 8
"""How often an enqueue of our own is tried, always under the same id, before an unknown outcome is the caller's."""
REFUSED = "HF001"
"""SQLSTATE of input that our SQL functions refuse."""


class Calls:
    """One for each application; connections are kept per event loop."""

    def __init__(self, find_database: Callable[[], Database]) -> None:
        self._find_database = find_database
        """Called on first use, so that importing an application needs no database."""
        self._connections: dict[asyncio.AbstractEventLoop, Connections] = {}
        self._lock = threading.Lock()
        self._portal = Portal()

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql` and commit it."""
        database = self._find_database()

        async def ask(connection: Connection) -> list[asyncpg.Record]:
            return list(await connection.fetch(database.sql(room, name), *arguments))

        with self._translated(database):
            return await self._here(database).use(ask)

    async def enqueue(self, maker: Maker, arguments: dict[str, Any]) -> Job:
        """Enqueue one job; when the answer is lost, ask again under the same id, which cannot add a second."""
        order = maker.order(arguments)

        async def one(connection: Connection, repeated: bool) -> Job:
            if repeated:  # a single statement commits by itself, and so might a late one
                mark = enqueue.ask_again(maker.database, order)
                await connection.execute(mark.sql, *mark.parameters)
            operation = (enqueue.again if repeated else enqueue.one)(maker.database, order, maker.terms)
            return operation.decode(await connection.fetch(operation.sql, *operation.parameters))

        return await self._insist(maker.database, one)

    async def enqueue_many(self, maker: Maker, orders: Orders, copy: bool | None) -> list[Job]:
        """Enqueue all or none, as patiently as `enqueue`."""
        if copy and orders.keyed:
            raise InvalidInput("copy", "COPY cannot look up idempotency keys; leave copy out")
        by_copy = len(orders) >= COPY_FROM and not orders.keyed if copy is None else copy
        (orders.next if by_copy else orders.all)()  # the first mistakes are found before anything is sent

        async def all_of_them(connection: Connection, repeated: bool) -> list[Job]:
            # A first try that comes late commits nothing that this does not find: the commit is a trip of its own, sent
            # when all rows were in. They are in the way of a repetition, or it finds them in the archive. If the commit
            # was never sent, nothing comes of it.
            if repeated:
                operation = enqueue.all_again(maker.database, orders.all(), maker.terms)
                return operation.decode(await connection.fetch(operation.sql, *operation.parameters))
            async with connection.transaction():
                if maker.database.pooler:  # else it is the session's
                    await connection.execute(end_if_idle(COMMAND_TIMEOUT))
                if by_copy:
                    return await _copy(connection, maker, orders)
                made: list[Job] = []
                for part in enqueue.many(maker.database, orders.all(), maker.terms):
                    made += part.decode(await connection.fetch(part.sql, *part.parameters))
                probe("enqueue.before_commit")
            return made

        return await self._insist(maker.database, all_of_them) if len(orders) else []

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on our own event loop, in a thread, and wait."""
        return self._portal.run(work)

    async def close(self) -> None:
        """Close the connections of this event loop, and those of `wait_for`, whose calls may end first."""
        await self._close(asyncio.get_running_loop())
        await asyncio.to_thread(self._portal.stop, self._close)

    async def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        connections = self._connections.pop(loop, None)
        if connections is not None:
            await connections.close()

    async def _insist(self, database: Database, ask: Callable[[Connection, bool], Awaitable[T]]) -> T:
        """Ask until there is an answer; `ask` is told whether it asked before."""
        failures = 0
        while True:
            repeated = failures > 0
            try:
                with self._translated(database):
                    return await self._here(database).use(lambda connection: ask(connection, repeated))  # noqa: B023
            except (Unreachable, Contended):
                failures += 1
                if failures == UNKNOWN_TRIES:
                    raise
                await asyncio.sleep(backoff(failures))

    def _here(self, database: Database) -> Connections:
        loop = asyncio.get_running_loop()
        here = self._connections.get(loop)
        if here is None:
            with self._lock:
                for gone in [other for other in self._connections if other.is_closed()]:
                    del self._connections[gone]
                here = self._connections[loop] = Connections(database)
        return here

    @contextmanager
    def _translated(self, database: Database) -> Iterator[None]:
        try:
            yield
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError) as error:
            raise SchemaError(
                f"The schema {database.schema!r} at {database.shown} is missing or older than this release "
                f"({error}). Run: {migrate.command(database.schema)}"
            ) from error
        except Exception as error:
            if (refusal := database.refusal(error)) is not None:
                raise refusal from None
            if getattr(error, "sqlstate", None) == REFUSED:
                field, _, problem = str(error).partition(": ")
                raise InvalidInput(field, problem) from None
            translated = translate(error)
            if translated is error:
                raise
            if isinstance(translated, Unreachable):
                raise database.unreachable(error) from error
            raise translated from error


async def _copy(connection: Connection, maker: Maker, orders: Orders) -> list[Job]:
    sql, parameters = copying.question(maker.database, maker.terms, len(orders))
    form = copying.form(len(orders), maker.terms, await connection.fetchrow(sql, *parameters))
    mistakes: list[Exception] = []

    async def source() -> AsyncIterator[bytes]:
        yield form.before + form.encode(orders.made)
        try:
            while not connection.is_closed() and (chunk := orders.next()):
                yield form.encode(chunk)
                await asyncio.sleep(0)  # others of this event loop need not wait for all of it
        except Exception as mistake:
            mistakes.append(mistake)  # raised from here, it would cost a cancel request and the connection
        yield form.after

    await connection.copy_to_table(
        "inbox", schema_name=maker.database.schema, columns=form.columns, source=source(), format=form.format,
        timeout=COMMAND_TIMEOUT + len(orders) / COPY_SLOWEST,
    )  # fmt: skip
    if mistakes:
        raise mistakes[0]
    return [Job(order.id) for order in orders.made]
