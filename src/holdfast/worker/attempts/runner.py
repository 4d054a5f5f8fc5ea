"""Run one attempt: choose the way, call the handler, and return the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from ...context import NO_STATE
from ...db.database import Database
from ...definitions import Definition, Runs
from ...errors import Cancelled, Timeout
from ...model.flow import AnyOutcome
from ...model.keep import keep_of
from ...model.occurrences import Occurrences
from ...model.outcome import DONE, AttemptFailed, Outcome
from ..flows.way import AsFlow, Records
from ..handler_processes.pool import HandlerProcesses
from ..settings import WorkerSettings
from .deciding import raised, stopped
from .desk import WorkerDesk
from .running import Running
from .transactions import Transactions
from .ways import GaveIn, InProcess, InThread, InTransaction, OnLoop, Uncommon, Way

Reported = TypeVar("Reported", bound=AnyOutcome | None)


class JobRunner:
    """Runs attempts of the registered tasks."""

    def __init__(
        self,
        database: Database,
        definitions: Mapping[str, Definition],
        settings: WorkerSettings,
        occurrences: Occurrences,
        address: str | None = None,
        state: Any = NO_STATE,
        threads: Executor | None = None,
        transactions: Transactions | None = None,
        records: Records | None = None,
    ) -> None:
        """`threads`: where handlers of threads run, and `transactions`: whose; None: its own, which it closes.
        `records`: where the steps of workflows are; None: it runs no workflows."""
        self._occurrences = occurrences
        self._own = Transactions(database, settings, occurrences) if transactions is None else None
        transactions = transactions or self._own
        assert transactions is not None
        desk = self._desk = WorkerDesk(transactions, state)
        keep = keep_of({kind: definition.keep for kind, definition in definitions.items()})
        self._on_loop = OnLoop(desk, occurrences)
        self._ways: dict[Runs, Way] = {
            Runs.ON_LOOP: self._on_loop,
            Runs.IN_THREAD: InThread(desk, settings.concurrency, threads),
            Runs.IN_TRANSACTION: InTransaction(desk, database, transactions, occurrences, keep),
        }
        if records is not None:
            self._ways[Runs.AS_FLOW] = AsFlow(
                desk, database, transactions, occurrences, records, settings.concurrency, threads
            )
        if address is not None and any(each.runs is Runs.IN_PROCESS for each in definitions.values()):
            processes = HandlerProcesses(address, definitions.values(), desk, occurrences, settings.imports)
            self._ways[Runs.IN_PROCESS] = InProcess(processes)
        self._how = {kind: (definition, self._ways[definition.runs]) for kind, definition in definitions.items()}

    async def start(self) -> None:
        for way in self._ways.values():
            await way.start()

    def passes_on(self, kind: str) -> bool:
        """Does work of such an attempt go on elsewhere: in a process of its handler's own, or in children?"""
        return self._how[kind][0].runs in (Runs.IN_PROCESS, Runs.AS_FLOW)

    def at_once(self, running: Running) -> AnyOutcome | None:
        """Begin; the outcome, if the handler has ended without waiting for anything, or None: then `run` goes on.

        Most handlers on the loop end here, and `run`, a coroutine around a coroutine, costs as much as they do.
        """
        definition, way = self._how[running.claim.kind]
        if way is not self._on_loop:
            return None
        try:
            outcome = self._on_loop.begin(running, definition)
            return outcome if outcome is DONE else self._report(running, outcome)
        except BaseException as error:
            return self._caught(running, error)

    async def run(self, running: Running) -> AnyOutcome | None:
        """Run the handler, or what is left of it; None when its ending is already written."""
        definition, way = self._how[running.claim.kind]
        try:
            outcome = await way.run(running, definition)
            return outcome if outcome is DONE else self._report(running, outcome)
        except BaseException as error:
            return self._caught(running, error)
        finally:
            if running.reason is not None:
                _forget_cancellation()

    def _caught(self, running: Running, error: BaseException) -> Outcome:
        match error:
            case asyncio.CancelledError():
                if not _current_task().cancelling():  # the handler's own, such as that of a task it awaited
                    return self._raised(running, error)
                if running.reason is None or not running.cancellable:
                    raise error  # the worker ends; a thread may still be running
                running.reason.__traceback__ = error.__traceback__  # the log shows where it waited
                return self._stopped(running)
            case GaveIn():
                return self._stopped(running)
            case KeyboardInterrupt() | GeneratorExit():
                raise error
            case _:
                return self._raised(running, error)

    def _stopped(self, running: Running) -> Outcome:
        assert running.reason is not None
        if isinstance(running.reason, Timeout):
            self._occurrences.timed_out(running.claim)
        definition, _ = self._how[running.claim.kind]
        return self._report(running, stopped(running.reason, running.claim.attempt, definition.retry))

    def _raised(self, running: Running, error: BaseException) -> Outcome:
        if isinstance(error, Uncommon):
            error = error.error
        if running.reason is not None and isinstance(error, (Cancelled, Timeout)):
            return self._stopped(running)
        definition, _ = self._how[running.claim.kind]
        return self._report(running, raised(error, running.claim.attempt, definition.retry))

    def _report(self, running: Running, outcome: Reported) -> Reported:
        if isinstance(outcome, AttemptFailed):
            self._occurrences.failed(running.claim, outcome)
            if outcome.cause is not None and not outcome.give_up and running.claim.attempt < running.claim.max_attempts:
                return cast(Reported, replace(outcome, cause=None))  # not the last attempt: it is not logged again
        return outcome

    async def close(self) -> None:
        self._desk.close()
        for way in self._ways.values():
            await way.close()
        if self._own is not None:
            await self._own.close()


def _forget_cancellation() -> None:
    """Reset the task: a handler may swallow its cancellation or raise another error, and the next one starts clean."""
    task = _current_task()
    while task.cancelling():
        task.uncancel()


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
