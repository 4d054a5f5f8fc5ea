"""The handlers of an application as `drain` runs them: one at a time, without a worker."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..context import NO_STATE
from ..definitions import Definition, Runs
from ..errors import Timeout
from ..middleware import surround
from ..model.flow import AnyOutcome
from ..model.job import Claim
from ..model.keep import keep_of
from ..model.occurrences import Occurrences
from ..worker.attempts.runner import JobRunner
from ..worker.attempts.running import Running
from ..worker.attempts.traced import AttemptRunner, traced
from ..worker.lifespan import LifespanFailed, LifespanTask
from .flows import Records, Watch
from .sessions import SETTINGS, link, transactions

if TYPE_CHECKING:
    from ..app import Holdfast


class Handlers:
    """The handlers of an application with what surrounds them: its middleware, lifespans and state."""

    def __init__(
        self,
        app: Holdfast,
        occurrences: Occurrences,
        threads: Executor | None,
        lifespan_failed: Callable[[BaseException], None],
    ) -> None:
        self._app = app
        self._occurrences = occurrences
        self._threads = threads
        self.watch = Watch()
        """What the steps of workflows do."""
        surrounded = {kind: self.watch.watched(each) for kind, each in app._surrounded().items()}
        self._together = {kind: each for kind, each in surrounded.items() if each.runs is not Runs.IN_PROCESS}
        self._apart = {
            # In a thread of this process: what a test has patched holds, and nothing needs to be imported again.
            kind: replace(surround(each, app._middleware), runs=Runs.IN_THREAD)
            for kind, each in surrounded.items()
            if each.runs is Runs.IN_PROCESS
        }
        self.definitions: Mapping[str, Definition] = {**self._together, **self._apart}
        self.keep = keep_of({kind: each.keep for kind, each in self.definitions.items()})
        lifespan = partial(app._lifespan, app) if app._lifespan is not None else None
        self._lifespan = LifespanTask(lifespan, lifespan_failed)
        self._lifespan_sync = ExitStack()
        self._runners: list[JobRunner] = []
        self._runner_apart: JobRunner | None = None

    async def __aenter__(self) -> Handlers:
        try:
            state = await self._lifespan.enter()
        except LifespanFailed as failed:
            raise failed.error from None
        self._runners.append(self._make_runner(self._together, state))
        return self

    async def __aexit__(self, *error: object) -> None:
        for runner in self._runners:
            await runner.close()
        await self._call(self._lifespan_sync.close)
        await self._lifespan.leave()

    def _make_runner(self, definitions: Mapping[str, Definition], state: Any) -> JobRunner:
        return JobRunner(
            self._app._database,
            definitions,
            SETTINGS,
            self._occurrences,
            None,
            state,
            self._threads,
            transactions(self._app),
            Records(link(self._app)),
        )

    async def run(self, claim: Claim) -> AnyOutcome | None:
        """Run the attempt; None if its ending is already written."""
        definition = self.definitions[claim.kind]
        runner = await self._apart_runner() if claim.kind in self._apart else self._runners[0]
        self._occurrences.started(claim)
        # In a task of its own: a timeout cancels it, and nothing of the test.
        return await asyncio.create_task(
            _run(traced(runner, self._app._tracing), claim, definition), name="holdfast attempt"
        )

    async def _apart_runner(self) -> JobRunner:
        if self._runner_apart is None:
            state: Any = NO_STATE
            if self._app._lifespan_sync is not None:
                state = await self._call(self._lifespan_sync.enter_context, self._app._lifespan_sync(self._app))
            self._runner_apart = self._make_runner(self._apart, state)
            self._runners.append(self._runner_apart)
        return self._runner_apart

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


async def _run(runner: AttemptRunner, claim: Claim, definition: Definition) -> AnyOutcome | None:
    task = asyncio.current_task()
    assert task is not None
    running = Running(claim, math.inf, task, definition.stoppable, perf_counter())
    timers: list[asyncio.TimerHandle] = []

    def begins() -> None:
        late = Timeout(f"the attempt ran longer than the {definition.timeout:g} s that its task allows")
        timers.append(asyncio.get_running_loop().call_later(definition.timeout, running.stop, late))

    running.begins = begins
    # There, it begins with the transaction, and with each step.
    if definition.runs not in (Runs.IN_TRANSACTION, Runs.AS_FLOW):
        begins()
    try:
        return await runner.run(running)
    finally:
        for timer in timers:
            timer.cancel()
