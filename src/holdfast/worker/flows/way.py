"""Run workflow instances: replay the code from its history, call its steps, and say how the run ended.

A step runs on the event loop, in a thread, or in a transaction, as a task would. It has its own timeout. A cancelled
instance finishes the step that it is in, because that must be undone; a draining worker stops at the next step. A run
that is stopped ends when its threads have ended.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from time import perf_counter
from typing import Any, Protocol

import asyncpg

from ...context import Context, Desk, StepContext, StepTxContext
from ...db.database import PIN_PLANS, Connection, Database, in_one_line
from ...definitions import Definition, Runs
from ...errors import Cancelled, LeaseLost, Timeout
from ...flow.driving import run
from ...flow.flow import Flow
from ...flow.history import Past
from ...flow.machine import Journal, Machine, Mode, StepCall
from ...inbox import sessions
from ...model.flow import AnyOutcome, History, Standing, StepRecord
from ...model.job import Claim
from ...model.occurrences import Occurrences
from ...model.outcome import HandedBack
from ...probes import probe
from ...workflow import recording
from ..attempts.deciding import Draining, Unstarted, ended_transaction, unstarted
from ..attempts.running import Running
from ..attempts.transactions import ATTEMPT, Transactions, Unbegun
from ..logs import current
from .problems import Deadlocked, EndedItself, NoTransaction
from .traced import TracedJournal

log = logging.getLogger("holdfast.workflow")

TIMEOUT = 30.0
"""Seconds that a statement in the transaction of a step may take."""
PATIENCE = "10s"
"""How long one waits for a row that is locked; then another one does. The server looks for deadlocks much earlier."""

_EMPTY = History()


class Records(Protocol):
    """Where the steps of instances are, and whether this worker stops."""

    @property
    def draining(self) -> bool: ...

    def holds(self, claim: Claim) -> bool:
        """Is the lease still ours, as far as this process can tell?"""

    def load(self, claim: Claim) -> Awaitable[History]: ...

    def record(self, claim: Claim, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        """`alone`: nothing else of this instance runs, so another may run in its place."""


class AsFlow:
    def __init__(
        self,
        desk: Desk,
        database: Database,
        transactions: Transactions,
        occurrences: Occurrences,
        records: Records,
        most: int,
        threads: Executor | None = None,
    ) -> None:
        self.desk = desk
        self.database = database
        self.transactions = transactions
        self._occurrences = occurrences
        self.records = records
        self._most = most
        self._threads = threads
        self._own: ThreadPoolExecutor | None = None

    async def start(self) -> None: ...

    async def run(self, running: Running, definition: Definition) -> AnyOutcome:
        claim = running.claim
        definition = definition.at(claim.version)
        arguments = definition.decode(claim.payload, claim.version)
        own = FlowJournal(self, running)
        journal: Journal = own if running.tracing is None else TracedJournal(own, claim, running.tracing)
        running.tell_steps = own.tell  # before the history is loaded: stopped here, it would end without undo
        history = await self.records.load(claim) if claim.generation > 1 else _EMPTY
        probe("run.before")
        past = Past(history)
        undoing = claim.cancelled or bool(past.undone)
        machine = Machine(definition, past, journal, Mode.UNDO if undoing else Mode.RUN, stored=bool(history.steps))
        code = _code(claim, definition, Flow(machine, claim), arguments)
        try:
            outcome = await run(machine, code, lambda took: self._occurrences.loop_blocked(claim, took), "cancelled")
        except NoTransaction:
            await self.transactions.pause()
            return unstarted(Unstarted.NO_TRANSACTION)
        except Deadlocked:
            return HandedBack()  # it did nothing, and is claimed again when the other transaction has ended
        except EndedItself:
            return ended_transaction()
        except asyncio.CancelledError:
            if isinstance(running.reason, Draining) and not running.given_up:
                with suppress(Exception):  # the steps beside those that were interrupted: they need not run again
                    await machine.flush()
            raise
        finally:
            await own.threads_end()
            running.tell_steps = None  # else they would refer to each other, and wait for Python's search for cycles
        running.waited = True
        probe("run.after")
        return outcome

    @property
    def threads(self) -> Executor:
        if self._threads is None:
            self._threads = self._own = ThreadPoolExecutor(self._most, thread_name_prefix="holdfast")
        return self._threads

    async def close(self) -> None:
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)


async def _code(claim: Claim, definition: Definition, flow: Flow, arguments: dict[str, Any]) -> Any:
    current.set(claim)
    return await definition.function(flow, **arguments)


class FlowJournal:
    """See `flow.machine.Journal`."""

    def __init__(self, way: AsFlow, running: Running) -> None:
        self._way = way
        self._running = running
        self._claim = running.claim
        self._contexts: set[Context] = set()
        self._threads: set[asyncio.Future[Any]] = set()
        """The threads in which steps run, or will when the pool has one; also those that were left."""
        self._overdue_at: dict[asyncio.Future[Any], float] = {}
        """When those that run are over their timeouts."""
        self._commits = 0
        """How many steps are being committed."""
        self._reason: LeaseLost | Cancelled | Timeout | None = None

    @property
    def draining(self) -> bool:
        return self._way.records.draining

    @property
    def cancelled(self) -> bool:
        return isinstance(self._reason, Cancelled)

    def record(self, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        return self._way.records.record(self._claim, records, alone)

    def tell(self, reason: LeaseLost | Cancelled | Timeout) -> None:
        """Tell the running steps that the instance was cancelled, or why its run is stopped."""
        self._reason = self._reason or reason
        for context in self._contexts:
            context._tell(reason)

    async def call(self, call: StepCall) -> Any:
        self._check_lease()
        probe("step.before")
        began = perf_counter()
        function = call.function
        if function.runs is Runs.IN_THREAD:
            value = await self._in_thread(call)
        elif function.wants_context:
            with self._told(StepContext(self._claim, self._way.desk, call.shown, call.attempt, call.result)) as context:
                value = await _within(call, function.call(context, *call.arguments), context)
        else:
            coroutine = function.call(*call.arguments)
            try:
                waits_for = coroutine.send(None)
            except StopIteration as done:  # it waited for nothing, and needs no timer
                value = done.value
            else:
                value = await _in_time(call, coroutine, waits_for, None)
        self._running.busy += perf_counter() - began
        probe("step.after")
        return value

    def _check_lease(self) -> None:
        """A process that was frozen has come here without a look at its notices: another worker may be ahead of it."""
        if not self._way.records.holds(self._claim):
            raise LeaseLost("another worker may own the instance")

    async def _in_thread(self, call: StepCall) -> Any:
        """A thread cannot be stopped: it is told, and its process is killed if it does not react.

        If this is cancelled, the thread goes on, and is watched until it ends.
        """
        context = StepContext(self._claim, self._way.desk, call.shown, call.attempt, call.result)
        given = (context, *call.arguments) if call.function.wants_context else call.arguments
        self._will_tell(context)
        loop = asyncio.get_running_loop()

        def begins() -> None:
            self._watch(thread, call, context)

        def in_its_turn() -> tuple[Any, Exception | None]:
            with suppress(RuntimeError):  # the loop is closed: nobody watches
                loop.call_soon_threadsafe(begins)
            return _invoke(call.function.call, given)

        work = self._way.threads.submit(copy_context().run, in_its_turn)
        thread = asyncio.wrap_future(work)
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        thread.add_done_callback(lambda thread: self._contexts.discard(context))
        try:
            value, error = await asyncio.shield(thread)
        except asyncio.CancelledError:
            work.cancel()  # if it has not begun
            raise
        if error is not None:
            raise error
        return value

    def _watch(self, thread: asyncio.Future[Any], call: StepCall, context: Context) -> None:
        """Watch a step that has its thread now: before that, it waited for the pool, and its timeout had not begun.

        Others of this instance may run side by side, each with its own timeout.
        """
        overdue = asyncio.get_running_loop().call_later(call.timeout, context._tell, _timeout(call))

        def ended(thread: asyncio.Future[Any]) -> None:
            overdue.cancel()
            del self._overdue_at[thread]
            self._watch_first()

        self._overdue_at[thread] = perf_counter() + call.timeout
        thread.add_done_callback(ended)
        self._watch_first()

    def _watch_first(self) -> None:
        first = min(self._overdue_at.values(), default=None)
        self._running.watch_steps(None if first is None else first - perf_counter())

    async def threads_end(self) -> None:
        """Wait for threads that were left: the run was stopped, or its code has cancelled their steps.

        While they run, the instance must not run elsewhere, nor here. If the worker ends before they do, its process
        does not wait for them, and the row is handed back when it is gone: so this raises what was to cancel the run.
        """
        if not self._threads:
            return
        running, task = self._running, asyncio.current_task()
        running.cancellable = False  # what can be stopped was stopped
        worker_ends = running.reason is None or running.given_up
        if worker_ends and task is not None and task.cancelling():
            raise asyncio.CancelledError
        await asyncio.wait(self._threads)
        running.cancellable = True

    @contextmanager
    def _told(self, context: Context) -> Generator[Any, None, None]:
        self._will_tell(context)
        try:
            yield context
        finally:
            self._contexts.discard(context)

    def _will_tell(self, context: Context) -> None:
        if self._reason is not None:
            context._tell(self._reason)
        self._contexts.add(context)

    async def cancel_children(self) -> None:
        claim = self._claim
        await self._way.transactions.run("workflow", "cancel_children", claim.id, claim.generation, claim.worker)

    async def commit(
        self, call: StepCall, earlier: Sequence[StepRecord], done: Callable[[Any], StepRecord]
    ) -> Standing:
        """Run the step's writes and its record in one transaction. The record is written last, under the hold."""
        with ExitStack() as until_committed:
            try:
                return await self._commit(call, earlier, done, until_committed)
            except Unbegun:
                raise NoTransaction from None

    async def _commit(
        self,
        call: StepCall,
        earlier: Sequence[StepRecord],
        done: Callable[[Any], StepRecord],
        until_committed: ExitStack,
    ) -> Standing:
        claim, way = self._claim, self._way
        self._check_lease()
        probe("step.before")
        began = perf_counter()
        async with way.transactions.of(claim, call.timeout) as connection:
            context = StepTxContext(claim, way.desk, connection, call.shown, call.attempt, call.result)
            with self._told(context):
                value = await _within(call, call.function.call(context, *call.arguments), context)
            probe("step.after")
            records = [*earlier, done(value)]
            until_committed.enter_context(self._stopped_later())
            if await connection.execute(_PIN_AND_CHECK.format(sessions.name(claim))) != "SELECT 1":
                raise EndedItself
            own = _OnConnection(connection, way.database)
            standing = await recording.record_with_writes(own, lambda: own.wait_for(claim), claim, records)
            if standing is None:
                raise LeaseLost("the lease was lost; the transaction of this step is rolled back")
            probe("tx.before_commit")
        probe("tx.after_commit")
        self._running.busy += perf_counter() - began
        return standing

    @contextmanager
    def _stopped_later(self) -> Generator[None, None, None]:
        """A record is being written, perhaps beside others: a cancellation would only make its outcome unknown."""
        running = self._running
        self._commits += 1
        running.cancellable = False
        try:
            yield
        finally:
            self._commits -= 1
            if self._commits == 0:
                running.cancellable = True
                if running.reason is not None:  # it was told to stop meanwhile
                    self._stop_hand()

    def _stop_hand(self) -> None:
        """Cancel the hand; not from within, where the run may end without another wait: the next job would get it."""
        if asyncio.current_task() is self._running.hand:
            asyncio.get_running_loop().call_soon(self._stop_if_it_runs)
        else:
            self._running.hand.cancel()

    def _stop_if_it_runs(self) -> None:
        running = self._running
        if running.tell_steps is not None and running.cancellable:
            running.hand.cancel()


_PIN_AND_CHECK = f"{PIN_PLANS}; select 1 where pg_catalog.current_setting('{ATTEMPT}', true) = '{{}}'"


_BACK = "rollback to savepoint holdfast_wait"
_GO_ON = "release savepoint holdfast_wait; set local lock_timeout to default"


class _OnConnection:
    """Statements inside a step's transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        return list(await self._connection.fetch(self._database.sql(room, name), *arguments, timeout=TIMEOUT))

    async def wait_for(self, claim: Claim) -> None:
        """Wait until the row of this instance is free, however long. Raises `Deadlocked`.

        No statement waits for long: a server that is silent must be noticed.
        """
        locked = True
        while locked:
            save = f"savepoint holdfast_wait; set local lock_timeout = '{PATIENCE}'"
            await self._connection.execute(save, timeout=TIMEOUT)
            try:
                await self.run("workflow", "lock", claim.id)
                locked = False
            except asyncpg.LockNotAvailableError:
                pass
            except asyncpg.DeadlockDetectedError as error:
                log.warning(
                    "a step of instance %s and another transaction waited for each other (%s); the step is rolled "
                    "back, and runs again", claim.idempotency_key or claim.id, in_one_line(error),
                )  # fmt: skip
                raise Deadlocked from error
            await self._connection.execute(_BACK if locked else _GO_ON, timeout=TIMEOUT)


async def _within(call: StepCall, coroutine: Coroutine[Any, Any, Any], context: Context | None) -> Any:
    """The result, if it comes in time. Most steps of tests and many others wait for nothing: they need no timer."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as done:
        return done.value
    return await _in_time(call, coroutine, waits_for, context)


async def _in_time(call: StepCall, coroutine: Coroutine[Any, Any, Any], waits_for: Any, context: Context | None) -> Any:
    """The result of a step that waits for something, if it comes in time."""
    limit = asyncio.timeout(call.timeout)
    try:
        async with limit:
            return await _rest(coroutine, waits_for)
    except TimeoutError as error:
        if limit.expired():  # and not one that the step has set itself
            timeout = _timeout(call)
            if context is not None:
                context._tell(timeout)
            raise timeout from error
        raise


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that waits for something."""
    while True:
        try:
            value = yield waits_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            step, given = coroutine.throw, error
        else:
            step, given = coroutine.send, value  # type: ignore[assignment]
        try:
            waits_for = step(given)
        except StopIteration as done:
            return done.value


def _timeout(call: StepCall) -> Timeout:
    return Timeout(f"the step ran longer than the {call.timeout:g} s that it may take")


def _invoke(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """The result, or what was raised: as a value, because a future rejects StopIteration and would wait forever."""
    try:
        return function(*arguments), None
    except (KeyboardInterrupt, GeneratorExit, StopIteration, SystemExit) as error:
        return None, RuntimeError(f"the step raised {type(error).__name__}")
    except Exception as error:
        return None, error
