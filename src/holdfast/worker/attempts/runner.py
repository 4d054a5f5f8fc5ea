"""Run one attempt: decode, call the handler, and say how it ended. Reads as a list of verbs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import asyncpg

from ...context import Context, TxContext
from ...db.database import PIN_PLANS, Connection, Database
from ...definitions import Definition
from ...errors import Cancelled, LeaseLost, Timeout
from ...inbox import ending, once
from ...model.job import Claim
from ...model.outcome import AttemptFailed, Outcome
from ...probes import probe
from ..handler_processes.pool import HandlerProcesses
from ..settings import WorkerSettings
from ..tally import Tally
from .deciding import Draining, OnceBusy, Stop, Unstarted, raised, returned, stopped, unstarted
from .transactions import Transactions, Unbegun

log = logging.getLogger("holdfast.worker")


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


class JobRunner:
    """Runs attempts of the registered tasks; also the desk that serves their contexts."""

    def __init__(
        self,
        database: Database,
        worker: str,
        definitions: Mapping[str, Definition],
        settings: WorkerSettings,
        tally: Tally,
        address: str | None = None,
    ) -> None:
        self._database = database
        self._worker = worker
        self._definitions = definitions
        self._concurrency = settings.concurrency
        self._tally = tally
        self._loop = asyncio.get_running_loop()
        self._threads: ThreadPoolExecutor | None = None
        self._transactions = Transactions(database, settings)
        self._processes: HandlerProcesses | None = None
        if address is not None and any(definition.process for definition in definitions.values()):
            self._processes = HandlerProcesses(address, definitions.values(), self)

    async def start(self) -> None:
        if self._processes is not None:
            await self._processes.start()

    async def run(self, running: Running) -> Outcome | None:
        """Run the handler; None when its ending is already written."""
        claim = running.claim
        definition = self._definitions[claim.kind]
        try:
            if definition.process:
                return await self._in_process(running, definition)
            arguments = definition.decode(claim.payload, claim.version)
            probe("run.before")
            if definition.wants_tx:
                return await self._run_tx(running, definition, arguments)
            value = await self._call(running, definition, arguments)
            probe("run.after")
            return returned(value)
        except asyncio.CancelledError as error:
            if not _current_task().cancelling():  # the handler's own, such as that of a task it awaited
                return self._raised(running, error)
            if running.reason is None or not running.cancellable:
                raise  # the worker ends; a thread may still be at it
            return self._stopped(running)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
                raise
            return self._raised(running, error)
        finally:
            if running.reason is not None:
                _forget_cancellation()

    async def _call(self, running: Running, definition: Definition, arguments: dict[str, Any]) -> Any:
        if definition.wants_context:
            running.context = Context(running.claim, self)
        if definition.is_async:
            if running.context is not None:
                return await definition.function(running.context, **arguments)
            return await definition.function(**arguments)
        return await self._in_thread(running, definition, arguments)

    async def _in_thread(self, running: Running, definition: Definition, arguments: dict[str, Any]) -> Any:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="holdfast")
        context = (running.context,) if running.context is not None else ()
        call = self._loop.run_in_executor(self._threads, _invoke, definition.function, context, arguments)
        value, error = await call
        if error is not None:
            raise error
        return value

    async def _in_process(self, running: Running, definition: Definition) -> Outcome:
        """Its process decodes the arguments, too, and says how it ended."""
        assert self._processes is not None
        probe("run.before")
        outcome = await self._processes.run(
            running.claim, lambda: running.reason, definition.wants_context, running.begins
        )  # fmt: skip
        probe("run.after")
        return self._stopped(running) if outcome is None else self._told(running, outcome)

    async def _run_tx(self, running: Running, definition: Definition, arguments: dict[str, Any]) -> Outcome | None:
        try:
            return await self._in_transaction(running, definition, arguments)
        except Unbegun:
            await self._transactions.pause()
            return unstarted(Unstarted.NO_TRANSACTION)  # the handler was not called: this is no attempt

    async def _in_transaction(
        self, running: Running, definition: Definition, arguments: dict[str, Any]
    ) -> Outcome | None:
        """The handler's writes, its follow-up jobs and its ending in one transaction. The row is touched last."""
        claim = running.claim
        async with self._transactions.of(claim, definition.timeout) as connection:
            running.begins()
            running.context = TxContext(claim, self, connection)
            value = await definition.function(running.context, **arguments)
            probe("run.after")
            outcome = returned(value)
            # From here on the ending is on its way: cancelling now would only make its outcome unknown.
            running.cancellable = False
            await connection.execute(PIN_PLANS)
            report = await ending.write(_OnConnection(connection, self._database), [(claim, outcome)])
            if report.lost:
                raise LeaseLost("its completion was refused; what it wrote is rolled back")
            probe("tx.before_commit")
        probe("tx.after_commit")
        self._tally.add(report)
        return None

    def _stopped(self, running: Running) -> Outcome:
        assert running.reason is not None
        self._tally.timeouts += isinstance(running.reason, Timeout)
        return stopped(running.reason)

    def _raised(self, running: Running, error: BaseException) -> Outcome:
        if isinstance(error, _Uncommon):
            error = error.error
        if running.reason is not None and isinstance(error, (Cancelled, Timeout)):
            return self._stopped(running)
        return self._told(running, raised(error))

    def _told(self, running: Running, outcome: Outcome) -> Outcome:
        if isinstance(outcome, AttemptFailed):
            claim = running.claim
            log.info("%s %s attempt %s failed: %r", claim.kind, claim.id, claim.attempt, outcome.last_error())
        return outcome

    # The desk

    async def enter_once(self, claim: Claim, key: str) -> bool:
        entry = await once.enter(self._transactions, key, claim.id, claim.fence)
        if entry is once.Entry.BUSY:
            raise OnceBusy(key)
        return entry is once.Entry.FIRST

    async def finish_once(self, claim: Claim, key: str) -> None:
        await once.finish(self._transactions, key, claim.fence)
        probe("once.after")  # the marker is committed

    def wait(self, work: Awaitable[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(_await(work), self._loop).result()

    async def close(self) -> None:
        await self._transactions.close()
        if self._processes is not None:
            await self._processes.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class _Uncommon(Exception):
    """Carries an exception that must not travel through the worker's own coroutines."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _OnConnection:
    """Statements inside a handler's transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        return list(await self._connection.fetch(self._database.sql(room, name), *arguments, timeout=30))


def _invoke(
    function: Callable[..., Any], context: tuple[Context, ...], arguments: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    """The result, or what was raised: as a value, since a future refuses StopIteration and waits forever."""
    try:
        return function(*context, **arguments), None
    except (KeyboardInterrupt, GeneratorExit, StopIteration) as error:
        # Raised on, these would end the loop or a coroutine of the worker instead of the attempt.
        return None, _Uncommon(error)
    except BaseException as error:
        return None, error


async def _await(work: Awaitable[Any]) -> Any:
    return await work


def _forget_cancellation() -> None:
    """A handler may swallow its cancellation or end by another error; the next one on this hand starts clean."""
    task = _current_task()
    while task.cancelling():
        task.uncancel()


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
