"""The branches of one run: which code may use the flow, and what happens when no branch can move.

A branch that cannot go on stands still permanently, and its coroutine is closed. Nothing is raised for that, so code
that catches exceptions cannot catch it. `active` counts the branches that can move; a branch that gathers others waits
for them and does not count. When no branch can move, the run is over.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context as Variables
from contextvars import ContextVar, copy_context
from functools import partial
from time import perf_counter
from typing import Any, NoReturn

from ..errors import ConfigurationError
from .history import Branch, Past

log = logging.getLogger("holdfast.workflow")

SUSPENDED = object()
"""What a coroutine yields that stands still, and then its value."""

BLOCKS = 1.0
"""Seconds that the code may keep the event loop, before a warning names it."""

Blocked = Callable[[float], None]

OVER = "flow: this run of the workflow is over; do not use flow in `finally`, nor after it has caught GeneratorExit"
IN_STEP = "flow: called inside a step; a step runs once and is not replayed, so call the flow from the workflow"
INTERRUPTED = (
    "flow: a call of the flow was cancelled by the code of the workflow, such as with asyncio.timeout(); what it did "
    "is not recorded. Use timeout= of flow.step() or flow.wait()"
)
MANY_REFUSALS = 100
CLOSINGS = 100

_branch: ContextVar[Branch] = ContextVar("holdfast_branch")


@types.coroutine
def stand_still() -> Generator[Any, Any, NoReturn]:
    """Let the coroutine that awaits this stand still: its driver closes it."""
    while True:
        yield SUSPENDED


@types.coroutine
def driven(
    branch: Branch, coroutine: Coroutine[Any, Any, Any], variables: Variables, blocked: Blocked
) -> Generator[Any, Any, Any]:
    """Run it as a task of asyncio does, to its end, or until it stands still: then the value is SUSPENDED."""
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        at = perf_counter()
        branch.runs = True
        try:
            waits_for = variables.run(step, value)
        except StopIteration as done:
            return done.value
        finally:
            branch.runs = False
            del value
            if (took := perf_counter() - at) > BLOCKS:
                blocked(took)
        if waits_for is SUSPENDED:
            return SUSPENDED
        try:
            value = yield waits_for
            step = coroutine.send
        except GeneratorExit:
            variables.run(coroutine.close)
            raise
        except BaseException as error:
            step, value = coroutine.throw, error


def shut(branch: Branch, coroutine: Coroutine[Any, Any, Any], variables: Variables) -> None:
    """Close the code of a branch. It cannot prevent that, only be left half-way."""
    branch.refuses = OVER
    for closing in range(CLOSINGS):
        try:
            variables.run(coroutine.close)
            return
        except RuntimeError as error:  # it awaits something, in `finally` or after it has caught GeneratorExit
            if closing == 0:
                log.warning(
                    "a workflow awaits in `finally`, or catches GeneratorExit: that part is not run when the instance "
                    "waits or stops (%s)", error,
                )  # fmt: skip
        except Exception as error:
            log.warning("a workflow raised %r while its code was closed; the instance is not affected", error)
            return


class Branches:
    """The branches of one run of an instance."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.main = Branch(())
        self.active = 1
        self._over = False
        """Can no branch move?"""
        self.blocked: Blocked = lambda took: None
        self.interrupted = False
        """Was a call of the flow cancelled by the code around it?"""
        self._waiters: list[asyncio.Future[bool]] = []
        """Branches with something new, while recorded steps of others have not been asked for."""
        self._askers: list[asyncio.Future[bool]] = []
        """Those that ask whether something new may begin here."""
        self._gathers: list[asyncio.Future[bool]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def enter(self) -> Branch:
        """The branch that calls. Every call of the flow begins here."""
        branch = _branch.get(self.main)
        if branch.refuses is not None:
            # Code that catches everything in a loop would never end: after many refusals, `begin` lets it stand still.
            branch.refusals += 1
            if branch.refusals > MANY_REFUSALS:
                return branch
            raise ConfigurationError(branch.refuses)
        if not branch.runs:
            raise ConfigurationError(
                "flow: called from another task; run branches side by side with flow.gather(…), not with "
                "asyncio.gather or create_task: their order would not be the same in a replay"
            )
        return branch

    async def drive(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the main branch: its result, or SUSPENDED when no branch can move."""
        variables = copy_context()
        value = None
        try:
            value = await driven(self.main, coroutine, variables, self.blocked)
            return value
        finally:
            await self._end_tasks(cancel=value is not SUSPENDED)
            shut(self.main, coroutine, variables)

    async def _end_tasks(self, cancel: bool) -> None:
        """When nothing can move, they end by themselves; otherwise the run itself is cancelled."""
        if self._tasks:
            tasks = list(self._tasks)
            if cancel:
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def reopen(self) -> None:
        """Begin another run, of other code."""
        self.main = Branch((), self.main.last)
        self.active = 1
        self._over = False
        self._waiters, self._askers, self._gathers = [], [], []

    # Standing still

    def _rest(self) -> None:
        """One branch fewer can move."""
        self.active -= 1
        if self.active or self._over:
            return
        if self.past.unvisited and self._askers:  # what is left is theirs
            self._answer(self._askers, False)
            return
        self._over = True
        for waiting in (self._askers, self._waiters, self._gathers):
            for future in waiting:
                if not future.done():
                    future.set_result(False)

    def _answer(self, waiting: list[asyncio.Future[bool]], answer: bool) -> None:
        futures = waiting[:]
        waiting.clear()
        for future in futures:
            if not future.done():
                self.active += 1
                future.set_result(answer)

    def all_visited(self) -> None:
        """The code has asked for everything that is recorded: something new may begin."""
        self._answer(self._askers, True)
        self._answer(self._waiters, True)

    async def others(self, branch: Branch, *, asks: bool = False) -> bool:
        """Wait until the code has asked for everything that is recorded. False: the other branches cannot."""
        if branch is self.main or not self.past.unvisited:
            return not self.past.unvisited
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._askers if asks else self._waiters).append(answer)
        self._rest()
        return bool(await self.unless_interrupted(branch, answer))

    async def unless_interrupted(self, branch: Branch, future: asyncio.Future[Any]) -> Any:
        try:
            return await future
        except asyncio.CancelledError:
            self.interrupt(branch)
            raise

    def interrupt(self, branch: Branch) -> None:
        """A call was cancelled half-way: nothing that the code does from here on could be replayed."""
        self.interrupted = True
        branch.refuses = INTERRUPTED

    # Side by side

    async def gather(self, coroutines: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run these side by side, until all have ended."""
        try:
            parent = self._parent(coroutines)
        except ConfigurationError:
            for coroutine in coroutines:
                if asyncio.iscoroutine(coroutine):
                    coroutine.close()
            raise
        if not coroutines:
            return []
        number = parent.gathers
        parent.gathers += 1
        everything: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._gathers.append(everything)
        branches = [Branch((*parent.path, number, index), parent.last) for index in range(len(coroutines))]
        self.active += len(coroutines) - 1
        left = len(coroutines)

        def ended(coroutine: Coroutine[Any, Any, Any], task: asyncio.Task[Any]) -> None:
            nonlocal left
            self._tasks.discard(task)
            if task.cancelled():
                coroutine.close()  # it may not have begun
            elif task.exception() is None and task.result() is SUSPENDED:
                self._rest()
                return
            left -= 1
            if left:
                self._rest()
            elif not everything.done():
                everything.set_result(True)  # the parent goes on in its place

        tasks = []
        for branch, coroutine in zip(branches, coroutines, strict=True):
            task = asyncio.create_task(self._run(branch, coroutine))
            self._tasks.add(task)
            task.add_done_callback(partial(ended, coroutine))
            tasks.append(task)
        if not await self.unless_interrupted(parent, everything):
            await stand_still()
        self._gathers.remove(everything)
        parent.last = max(branch.last for branch in branches)
        return [task.result() for task in tasks]

    def _parent(self, coroutines: Sequence[Coroutine[Any, Any, Any]]) -> Branch:
        parent = self.enter()
        if parent.refuses is not None:
            raise ConfigurationError(parent.refuses)
        for coroutine in coroutines:
            if not asyncio.iscoroutine(coroutine):
                raise ConfigurationError(
                    f"gather: expected calls of async functions, got {coroutine!r}; "
                    "write flow.gather(pay(flow), flow.step(…))"
                )
        return parent

    async def _run(self, branch: Branch, coroutine: Coroutine[Any, Any, Any]) -> Any:
        _branch.set(branch)
        variables = copy_context()
        try:
            return await driven(branch, coroutine, variables, self.blocked)
        finally:
            shut(branch, coroutine, variables)
