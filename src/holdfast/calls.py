"""Calls on Holdfast's own connections, with retries, and with errors that say what to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import asyncpg

from .db.connections import Connections
from .db.database import COMMAND_TIMEOUT, Connection, Database, end_if_idle
from .db.link import backoff, translate
from .db.portal import Portal
from .errors import Contended, InvalidInput, SchemaError, Unreachable
from .inbox import copying, enqueue
from .model.terms import NewJob, Stored
from .probes import probe
from .results import Results
from .schema import migrate

if TYPE_CHECKING:
    from .making import Batch

T = TypeVar("T")

COPY_FROM = 500
"""Rows from which `enqueue_many` uses COPY by itself: a third less work for the server, for one more trip."""
COPY_SLOWEST = 1000
"""Rows a second: a COPY gets this much more time than any call has."""
UNKNOWN_TRIES = 8
"""How often an enqueue is tried, always under the same id, before the caller gets an error with the outcome unknown."""
REFUSED = "HF001"
"""SQLSTATE of input that our SQL functions reject."""


class Calls:
    """One for each application; connections are kept per event loop."""

    def __init__(self, find_database: Callable[[], Database]) -> None:
        self._find_database = find_database
        """Called on first use, so that importing an application needs no database."""
        self._connections: dict[asyncio.AbstractEventLoop, Connections] = {}
        self._lock = threading.Lock()
        self._portal = Portal()
        self._results: dict[asyncio.AbstractEventLoop, Results] = {}

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql` and commit it."""
        database = self._find_database()

        async def ask(connection: Connection) -> list[asyncpg.Record]:
            return list(await connection.fetch(database.sql(room, name), *arguments))

        with self._translated(database):
            return await self._here(database).use(ask)

    async def enqueue(self, job: NewJob) -> Stored:
        """Enqueue one job. If the answer is lost, retry under the same id, which cannot add a second job."""
        database = self._find_database()

        async def one(connection: Connection, retried: bool) -> Stored:
            if retried:  # a single statement commits by itself, and so might the first try, late
                mark = enqueue.ask_again(database, job)
                await connection.execute(mark.sql, *mark.parameters)
            operation = (enqueue.again if retried else enqueue.one)(database, job)
            return operation.decode(await connection.fetch(operation.sql, *operation.parameters))

        return await self._insist(database, one)

    async def enqueue_many(self, batch: Batch, copy: bool | None) -> list[Stored]:
        """Enqueue all or none, as patiently as `enqueue`."""
        database = self._find_database()
        if copy and not batch.copyable:
            problem = "look up idempotency keys" if batch.unique else "store jobs of different tasks or options"
            raise InvalidInput("copy", f"COPY cannot {problem}; leave copy out")
        by_copy = len(batch) >= COPY_FROM and batch.copyable if copy is None else copy
        (batch.next if by_copy else batch.all)()  # the first mistakes are found before anything is sent

        async def all_of_them(connection: Connection, retried: bool) -> list[Stored]:
            # A first try that arrives late commits nothing that this does not find. Its commit is a trip of its own,
            # sent when all rows were in: they are in the way of the retry, or it finds them in the archive. If the
            # commit was never sent, the first try is rolled back.
            if retried:
                operation = enqueue.all_again(database, batch.all())
                return operation.decode(await connection.fetch(operation.sql, *operation.parameters))
            async with connection.transaction():
                if database.pooler:  # otherwise the session has the limit
                    await connection.execute(end_if_idle(COMMAND_TIMEOUT))
                if by_copy:
                    return await _copy(connection, database, batch)
                stored: list[Stored] = []
                for part in enqueue.many(database, batch.all()):
                    stored += part.decode(await connection.fetch(part.sql, *part.parameters))
                probe("enqueue.before_commit")
            return stored

        return await self._insist(database, all_of_them) if len(batch) else []

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on Holdfast's own event loop, in a thread, and wait for the result."""
        return self._portal.run(work)

    async def result(self, id: UUID, timeout: float | None) -> Any:
        """Wait for a job to end; see `results`."""
        loop = asyncio.get_running_loop()
        results = self._results.get(loop)
        if results is None:
            with self._lock:
                for gone in [other for other in self._results if other.is_closed()]:
                    del self._results[gone]
                results = self._results[loop] = Results(lambda name, ids: self.run("inbox", name, ids))
        return await results.wait(id, timeout)

    async def close(self) -> None:
        """Close the connections of this event loop, and those of `wait_for` after its calls have ended."""
        await self._close(asyncio.get_running_loop())
        await asyncio.to_thread(self._portal.stop, self._close)

    async def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        if (results := self._results.pop(loop, None)) is not None:
            results.close()
        connections = self._connections.pop(loop, None)
        if connections is not None:
            await connections.close()

    async def _insist(self, database: Database, ask: Callable[[Connection, bool], Awaitable[T]]) -> T:
        """Ask until there is an answer; `ask` learns whether this is a retry."""
        failures = 0
        while True:
            retried = failures > 0
            try:
                with self._translated(database):
                    return await self._here(database).use(lambda connection: ask(connection, retried))  # noqa: B023
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


async def _copy(connection: Connection, database: Database, batch: Batch) -> list[Stored]:
    assert batch.terms is not None
    sql, parameters = copying.question(database, batch.terms, len(batch))
    form = copying.form(len(batch), batch.terms, await connection.fetchrow(sql, *parameters))
    mistakes: list[Exception] = []

    async def source() -> AsyncIterator[bytes]:
        yield form.before + form.encode(batch.made)
        try:
            while not connection.is_closed() and (chunk := batch.next()):
                yield form.encode(chunk)
                await asyncio.sleep(0)  # let others on this event loop run
        except Exception as mistake:
            mistakes.append(mistake)  # raised from here, it would cost a cancel request and the connection
        yield form.after

    await connection.copy_to_table(
        "inbox", schema_name=database.schema, columns=form.columns, source=source(), format=form.format,
        timeout=COMMAND_TIMEOUT + len(batch) / COPY_SLOWEST,
    )  # fmt: skip
    if mistakes:
        raise mistakes[0]
    return [Stored(job.id) for job in batch.made]
