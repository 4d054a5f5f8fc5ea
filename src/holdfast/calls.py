"""Calls on Holdfast's own connections, with retries, and with errors that say what to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import UUID

import asyncpg

from .db.connections import Connections
from .db.database import COMMAND_TIMEOUT, Connection, Database, end_if_idle
from .db.link import backoff, translate
from .db.portal import Portal
from .errors import Contended, InvalidInput, OutcomeUnknown, SchemaError, Unreachable
from .inbox import copying, enqueue
from .model.terms import NewJob, Stored
from .probes import probe
from .results import Results
from .schema import migrate

if TYPE_CHECKING:
    from .making import Batch

T = TypeVar("T")


class Kept(Protocol):
    """What an event loop keeps: connections for one purpose."""

    async def close(self) -> None: ...

    def abandon(self) -> None:
        """End the sessions. The event loop is closed."""


K = TypeVar("K", bound=Kept)

COPY_FROM = 500
"""Rows from which `enqueue_many` uses COPY by itself: a third less work for the server, for one more trip."""
COPY_SLOWEST = 1000
"""Rows a second: a COPY gets this much more time than any call has."""
UNKNOWN_TRIES = 8
"""How often an enqueue is tried, always under the same id, before the caller gets an error with the outcome unknown."""
OLDER_SCHEMA = (
    asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError,
    asyncpg.GeneratedAlwaysError,
)  # fmt: skip
"""What a statement of this release raises on the schema of an older one: up to version 16, "kind" was generated."""
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
        self._kept: dict[asyncio.AbstractEventLoop, dict[type[Kept], Kept]] = {}

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql` and commit it."""
        database = self._find_database()

        async def ask(connection: Connection) -> list[asyncpg.Record]:
            return list(await connection.fetch(database.sql(room, name), *arguments))

        with _Translated(database):
            return await self._here(database).use(ask)

    async def execute(self, script: str) -> None:
        """Run statements without parameters, all in one transaction."""
        database = self._find_database()
        with _Translated(database):
            await self._here(database).use(lambda connection: connection.execute(script))

    def keep(self, kind: type[K], make: Callable[[Database], K]) -> K:
        """Return what this event loop keeps of this kind, made on first use. `close` closes it, too."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._kept:
                self._forget_closed_loops()
            kept = self._kept.setdefault(loop, {})
            if kind not in kept:
                kept[kind] = make(self._find_database())
            return cast(K, kept[kind])

    async def enqueue(self, job: NewJob) -> Stored:
        """Enqueue one job. If the answer is lost, retry under the same id, which cannot add a second job."""
        database = self._find_database()
        tries = _Tries(database, [job])

        async def one(connection: Connection, retried: bool) -> Stored:
            if retried:  # a single statement commits by itself, and so might the first try, late
                mark = enqueue.ask_again(database, job)
                await connection.execute(mark.sql, *mark.parameters)
                if await tries.stored(connection):
                    return Stored(job.id)
            operation = (enqueue.again if retried else enqueue.one)(database, job)
            with tries:  # one more
                tries.commits()
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

        tries = _Tries(database, batch.made)

        async def all_of_them(connection: Connection, retried: bool) -> list[Stored]:
            if retried:
                batch.all()
            if await tries.stored(connection):
                return [Stored(job.id) for job in batch.made]
            with tries:  # one more
                return await send(connection, retried)

        async def send(connection: Connection, retried: bool) -> list[Stored]:
            # A first try that arrives late commits nothing that this does not find. Its commit is a trip of its own,
            # sent when all rows were in: they are in the way of the retry, or it finds them in the archive. If the
            # commit was never sent, the first try is rolled back.
            if retried:
                operation = enqueue.all_again(database, batch.all())
                tries.commits()
                return operation.decode(await connection.fetch(operation.sql, *operation.parameters))
            async with connection.transaction():
                if database.pooler:  # otherwise the session has the limit
                    await connection.execute(end_if_idle(COMMAND_TIMEOUT))
                stored: list[Stored] = []
                if by_copy:
                    stored = await _copy(connection, database, batch)
                else:
                    for part in enqueue.many(database, batch.all()):
                        stored += part.decode(await connection.fetch(part.sql, *part.parameters))
                    probe("enqueue.before_commit")
                tries.commits()
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
        with self._lock:
            self._forget_closed_loops()
        await self._close(asyncio.get_running_loop())
        await asyncio.to_thread(self._portal.stop, self._close)

    async def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        if (results := self._results.pop(loop, None)) is not None:
            results.close()
        for kept in self._kept.pop(loop, {}).values():
            await kept.close()
        connections = self._connections.pop(loop, None)
        if connections is not None:
            await connections.close()

    def _forget_closed_loops(self) -> None:
        """End the sessions of event loops that were closed first: as long as they last, no database can be dropped."""
        for gone in [loop for loop in self._connections if loop.is_closed()]:
            self._connections.pop(gone).abandon()
        for gone in [loop for loop in self._kept if loop.is_closed()]:
            for kept in self._kept.pop(gone).values():
                kept.abandon()

    async def insist(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Ask until there is an answer. For statements that may be sent more than once."""
        return await self._insist(self._find_database(), lambda connection, retried: ask(connection))

    async def _insist(self, database: Database, ask: Callable[[Connection, bool], Awaitable[T]]) -> T:
        """Ask until there is an answer; `ask` learns whether this is a retry."""
        failures = 0
        while True:
            retried = failures > 0
            try:
                with _Translated(database):
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
                self._forget_closed_loops()
                here = self._connections[loop] = Connections(database)
        return here


class _Translated:
    """Around a call: turns the driver's errors into ours. A class: a generator would cost every enqueue more."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        database = self._database
        if isinstance(error, OLDER_SCHEMA):
            raise SchemaError(
                f"The schema {database.schema!r} at {database.shown} is missing or older than this release "
                f"({error}). Run: {migrate.command(database.schema)}"
            ) from error
        if (refusal := database.refusal(error)) is not None:
            raise refusal from None
        if getattr(error, "sqlstate", None) == REFUSED:
            field, _, problem = str(error).partition(": ")
            raise InvalidInput(field, problem) from None
        translated = translate(error)
        if isinstance(translated, Unreachable) and translated is not error:
            raise database.unreachable(error) from error
        if translated is not error:
            raise translated from error


class _Tries:
    """Whether an earlier try of an enqueue may have stored its jobs, and these have left no row since.

    Each try is a `with` block. A retry finds jobs in the inbox or in the archive. A completed job of a task with
    `keep=None` is in neither, so sending it again could add a second one. (With an idempotency key, the key is still
    there.)
    """

    __slots__ = ("_database", "_jobs", "_sent", "_unanswered")

    def __init__(self, database: Database, jobs: Sequence[NewJob]) -> None:
        self._database = database
        self._jobs = jobs
        """May grow until the first retry."""
        self._unanswered = False
        self._sent = False

    def __enter__(self) -> None:
        """Begin one more try."""
        self._sent = False

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and self._sent and not _is_answer(error):
            self._unanswered = True

    def commits(self) -> None:
        """Called when the next thing that is sent commits: without an answer, whether it did is unknown."""
        self._sent = True

    async def stored(self, connection: Connection) -> bool:
        """True if the jobs have been stored, False if sending them is safe; raises OutcomeUnknown if it is not."""
        jobs = self._jobs
        if not self._unanswered or not (unkept := await self._unkept(connection)):
            return False
        # All or none were stored, so one of them is enough. But not if some may have been there before this call.
        if not any(job.unique if len(jobs) > 1 else job.brought for job in jobs):
            rows = await connection.fetch(self._database.sql("inbox", "gone"), [job.id for job in jobs])
            if len(rows) < len(jobs):
                return True
        raise OutcomeUnknown(
            f"The server did not answer, and no row shows whether it stored the jobs of {', '.join(unkept)}: with "
            "keep=None, they may have completed since. Nothing was sent again, because that could add a second job. "
            "Pass an idempotency_key: then retries are safe"
        )

    async def _unkept(self, connection: Connection) -> list[str]:
        """The kinds of which completed jobs leave neither row nor idempotency key, even if only their workers know."""
        keyless = [job for job in self._jobs if job.idempotency_key is None]
        kinds = {job._terms.kind for job in keyless}
        declared = await connection.fetch(self._database.sql("kinds", "unkept"), list(kinds))
        return sorted({job._terms.kind for job in keyless if not job.kept} | {row[0] for row in declared})


def _is_answer(error: Exception) -> bool:
    """Has the server said that nothing was stored? Not if it ended the session: it may do so after the commit."""
    state = getattr(error, "sqlstate", None) or "08"
    return isinstance(error, asyncpg.PostgresError) and not state.startswith(("08", "57P", "40003"))


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
