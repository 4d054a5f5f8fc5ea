"""The ways to run an attempt: on the loop, in a thread, in a transaction, in a separate process.

A way gets the claimed row and returns the outcome, or raises what the handler raised. To run claimed rows differently,
add a way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from time import perf_counter
from typing import Any, Protocol

import asyncpg

from ...context import Context, Desk, TxContext
from ...db.database import PIN_PLANS, Connection, Database
from ...definitions import Definition
from ...errors import LeaseLost
from ...inbox import sessions
from ...model.flow import AnyOutcome
from ...model.job import Claim
from ...model.keep import Keep
from ...model.occurrences import Occurrences
from ...model.outcome import DONE, AttemptFailed, Outcome
from ...probes import probe
from ..handler_processes.pool import HandlerProcesses
from ..leases import ledger as marks
from ..logs import current
from . import writing
from .contexts import BLOCKS, first_step, other_steps
from .deciding import Unstarted, ended_transaction, expiry, returned, unstarted
from .running import Running
from .transactions import ATTEMPT, Transactions, Unbegun


class Way(Protocol):
    async def start(self) -> None:
        """Prepare for the first attempt; raises ConfigurationError if this way cannot work here."""

    async def run(self, running: Running, definition: Definition) -> AnyOutcome | None:
        """Run the attempt; None if its ending is already written."""

    async def close(self) -> None: ...


class GaveIn(Exception):
    """The handler was told to stop, and did."""


class Uncommon(Exception):
    """Carries an exception that must not be raised through the worker's own coroutines."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class OnLoop:
    def __init__(self, desk: Desk, occurrences: Occurrences) -> None:
        self._desk = desk
        self._occurrences = occurrences

    async def start(self) -> None: ...

    def begin(self, running: Running, definition: Definition) -> Outcome | None:
        """Run the handler up to where it first waits. The outcome, if it has ended there; otherwise `run` goes on."""
        claim = running.claim
        arguments = definition.decode(claim.payload, claim.version)
        probe("run.before")
        if definition.wants_context:
            running.context = Context(claim, self._desk)
            coroutine = definition.function(running.context, **arguments)
        else:
            coroutine = definition.function(**arguments)
        running.steps = first_step(running, coroutine)
        return self._ended(running) if running.steps is None else None

    async def run(self, running: Running, definition: Definition) -> Outcome:
        if running.steps is None and (outcome := self.begin(running, definition)) is not None:
            return outcome
        assert running.steps is not None
        await other_steps(running, running.steps, self._occurrences.loop_blocked)
        return self._ended(running)

    def _ended(self, running: Running) -> Outcome:
        probe("run.after")
        return DONE if running.result is None else returned(running.result)

    async def close(self) -> None: ...


class InThread:
    def __init__(self, desk: Desk, most: int, threads: Executor | None = None) -> None:
        self._desk = desk
        self._most = most
        self._threads = threads
        self._own: ThreadPoolExecutor | None = None

    async def start(self) -> None: ...

    async def run(self, running: Running, definition: Definition) -> Outcome:
        claim = running.claim
        arguments = definition.decode(claim.payload, claim.version)
        probe("run.before")
        if definition.wants_context:
            running.context = Context(claim, self._desk)
        context = (running.context,) if running.context is not None else ()
        if self._threads is None:
            self._threads = self._own = ThreadPoolExecutor(self._most, thread_name_prefix="holdfast")
        loop = asyncio.get_running_loop()
        value, error = await loop.run_in_executor(
            self._threads, copy_context().run, _invoke, claim, definition.function, context, arguments
        )
        if error is not None:
            raise error
        probe("run.after")
        return returned(value)

    async def close(self) -> None:
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)


def _invoke(
    claim: Claim, function: Callable[..., Any], context: tuple[Context, ...], arguments: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    """The result, or what was raised: as a value, because a future rejects StopIteration and would wait forever."""
    current.set(claim)
    try:
        return function(*context, **arguments), None
    except (KeyboardInterrupt, GeneratorExit, StopIteration) as error:
        # Raised again, these would end the loop or a coroutine of the worker instead of the attempt.
        return None, Uncommon(error)
    except BaseException as error:
        return None, error


class InTransaction:
    def __init__(
        self, desk: Desk, database: Database, transactions: Transactions, occurrences: Occurrences, keep: Keep[Claim]
    ) -> None:
        self._desk = desk
        self._database = database
        self._transactions = transactions
        self._occurrences = occurrences
        self._keep = keep

    async def start(self) -> None: ...

    async def run(self, running: Running, definition: Definition) -> Outcome | None:
        claim = running.claim
        arguments = definition.decode(claim.payload, claim.version)
        probe("run.before")
        try:
            return await self._in_transaction(running, definition, arguments)
        except Unbegun:
            await self._transactions.pause()
            return unstarted(Unstarted.NO_TRANSACTION)  # the handler was not called: this is no attempt
        except _RolledBack as rolled_back:
            return rolled_back.outcome

    async def _in_transaction(
        self, running: Running, definition: Definition, arguments: dict[str, Any]
    ) -> Outcome | None:
        """Run the handler's writes, its follow-up jobs and its ending in one transaction. The row is written last."""
        claim = running.claim
        async with self._transactions.of(claim, definition.timeout) as connection:
            if (why := expiry(claim, marks.now())) is not None:  # it may have waited for its transaction
                raise _RolledBack(unstarted(why))
            running.begins()
            running.context = TxContext(claim, self._desk, connection)
            value = await self._call(running, definition, arguments, connection)
            probe("run.after")
            outcome = returned(value)
            if isinstance(outcome, AttemptFailed):  # its result cannot be stored
                raise _RolledBack(outcome)
            # From here on the ending is being written: a cancellation would only make its outcome unknown.
            running.cancellable = False
            if await connection.execute(_PIN_AND_CHECK.format(sessions.name(claim))) != "SELECT 1":
                raise _RolledBack(ended_transaction())
            report = await writing.write(_OnConnection(connection, self._database), [(claim, outcome)], keep=self._keep)
            if report.lost:
                raise LeaseLost("the lease was lost; the transaction of this attempt is rolled back")
            probe("tx.before_commit")
        probe("tx.after_commit")
        running.written = outcome
        claim.took = perf_counter() - running.began
        self._occurrences.ended([(claim, outcome)], report)
        return None

    async def _call(
        self, running: Running, definition: Definition, arguments: dict[str, Any], connection: Connection
    ) -> Any:
        running.began = perf_counter()
        try:
            coroutine = definition.function(running.context, **arguments)
            if (began := first_step(running, coroutine)) is not None:
                await other_steps(running, began, self._occurrences.loop_blocked)
            return running.result
        except Exception as error:
            if not connection.is_closed() and not connection.is_in_transaction():
                raise _RolledBack(ended_transaction(error)) from error
            raise
        finally:
            if not running.waited and (took := perf_counter() - running.began) > BLOCKS:
                self._occurrences.loop_blocked(running.claim, took)

    async def close(self) -> None: ...


_PIN_AND_CHECK = f"{PIN_PLANS}; select 1 where pg_catalog.current_setting('{ATTEMPT}', true) = '{{}}'"
"""Selects one row, unless the handler has ended its transaction itself, even if it has begun another one. It costs no
round trip of its own."""


class _RolledBack(Exception):
    """Rolls the transaction back, and carries the outcome of the attempt."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class _OnConnection:
    """Statements inside a handler's transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        return list(await self._connection.fetch(self._database.sql(room, name), *arguments, timeout=30))


class InProcess:
    """Its process decodes the arguments, runs the handler, and returns the outcome."""

    def __init__(self, processes: HandlerProcesses) -> None:
        self._processes = processes

    async def start(self) -> None:
        await self._processes.start()

    async def run(self, running: Running, definition: Definition) -> Outcome:
        probe("run.before")
        wants_context = definition.wants_context
        outcome = await self._processes.run(running.claim, lambda: running.reason, wants_context, running.begins)
        probe("run.after")
        if outcome is None:
            raise GaveIn
        return outcome

    async def close(self) -> None:
        await self._processes.close()
