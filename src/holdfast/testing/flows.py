"""Workflows in tests: their steps as `drain` runs them, and a worker that dies where a test wants it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Literal, get_args

from msgspec.structs import replace

from ..db.runner import Runner
from ..definitions import Definition, Runs
from ..errors import HoldfastError, InvalidInput, LeaseLost
from ..flow.flow import Flow
from ..flow.history import shown
from ..flow.machine import Journal, NotCommitted, StepCall
from ..model.flow import History, Standing, StepRecord
from ..model.job import Claim
from ..model.limits import check_name
from ..model.outcome import Fail, Retry, Snooze
from ..workflow import recording

When = Literal["before", "after", "recorded"]


class Died(LeaseLost):
    """The worker of a drain has died, as far as the instance can tell."""


class NeverDied(HoldfastError, AssertionError):
    """The block of `die_at` has ended, and no worker died in it: the step did not run."""


_armed: list[die_at] = []


class die_at(AbstractContextManager["die_at"]):
    """Let the worker of a drain die at a step of a workflow, once. The drain continues, as another worker would.

    `when`: "before" the step is called; "after" it has run, and nothing of it is recorded; or when it is "recorded".
    The instance runs again: a step that ran and was not recorded is called a second time, a recorded one is not. A step
    with a transaction has left nothing behind unless it is recorded. Raises at the end of the block if no worker died.

    ```python
    from holdfast.testing import die_at, drain

    await checkout.options(id="checkout:20").start(order_id=20)
    with die_at("receipt"):
        await drain(hf)
    ```
    """

    def __init__(self, step: str, when: When = "after") -> None:
        if when not in get_args(When):
            raise InvalidInput("when", f"expected 'before', 'after' or 'recorded', got {when!r}")
        self.step = check_name("step", step)
        """The name of the step; in a loop, with its number: 'charge#2'."""
        self.when = when
        """Before it is called, after it has run, or when it is recorded."""
        self.died = False
        """Has a worker died?"""

    def __enter__(self) -> die_at:
        self.died = False
        _armed.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _armed.remove(self)
        if error is None and not self.died:
            raise NeverDied(
                f"die_at({self.step!r}): expected that this step runs in the block, and it did not; is it recorded "
                "already, or does the instance wait?"
            )


class Watch:
    """What happened in the steps of a run."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        """The last error of a step. `Snooze`, `Fail` and `Retry` are none."""
        self.died: Died | None = None

    def reset(self) -> None:
        self.error = self.died = None

    def die_if_armed(self, step: str, when: When) -> None:
        for each in _armed:
            if not each.died and each.when == when and each.step == step:
                each.died = True
                self.died = Died(f"die_at({step!r}, {when!r}): the worker died")
                raise self.died

    def watched(self, definition: Definition) -> Definition:
        """A workflow whose steps are watched; any other task as it is."""
        if definition.runs is not Runs.AS_FLOW:
            return definition
        earlier = {version: self.watched(code) for version, code in definition.earlier.items()}
        return replace(definition, function=self._around(definition.function), earlier=earlier)

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def watched(flow: Flow, /, **arguments: Any) -> Any:
            flow._machine.journal = _Watched(flow._machine.journal, self)
            return await function(flow, **arguments)

        return watched


class _Watched:
    """A `Journal` that notes errors, and dies where a test wants it."""

    def __init__(self, journal: Journal, watch: Watch) -> None:
        self._journal = journal
        self._watch = watch

    @property
    def draining(self) -> bool:
        return self._journal.draining

    @property
    def cancelled(self) -> bool:
        return self._journal.cancelled

    def record(self, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        return self._record(records, alone)

    async def _record(self, records: Sequence[StepRecord], alone: bool) -> Standing:
        standing = await self._journal.record(records, alone)
        for each in records:
            self._watch.die_if_armed(shown(each.name, each.n), "recorded")
        return standing

    async def call(self, call: StepCall) -> Any:
        self._watch.die_if_armed(call.shown, "before")
        try:
            value = await self._journal.call(call)
        except Exception as error:
            self._note(error)
            raise
        self._watch.die_if_armed(call.shown, "after")
        return value

    async def cancel_children(self) -> None:
        await self._journal.cancel_children()

    async def commit(self, call: StepCall, earlier: Sequence[StepRecord], done: Callable[[Any], StepRecord]) -> Any:
        self._watch.die_if_armed(call.shown, "before")

        def ran(value: Any) -> StepRecord:
            self._watch.die_if_armed(call.shown, "after")
            return done(value)

        try:
            value = await self._journal.commit(call, earlier, ran)
        except Exception as error:
            self._note(error)
            raise
        for each in earlier:
            self._watch.die_if_armed(shown(each.name, each.n), "recorded")
        self._watch.die_if_armed(call.shown, "recorded")
        return value

    def _note(self, error: Exception) -> None:
        if not isinstance(error, Snooze | Fail | Retry | NotCommitted | Died):
            self._watch.error = error


class Records:
    """The steps of instances, read and written one at a time."""

    draining = False

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def holds(self, claim: Claim) -> bool:
        return True

    async def load(self, claim: Claim) -> History:
        return (await recording.load(self._runner, [claim.id])).get(claim.id) or History()

    async def record(self, claim: Claim, records: Sequence[StepRecord], alone: bool) -> Standing:
        standing = (await recording.record(self._runner, [(claim, records)])).get(claim.id)
        if standing is None:
            raise LeaseLost("another worker may own the instance")
        return standing
