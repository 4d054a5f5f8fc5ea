"""One run of an instance: what it has recorded and not written yet, and why it stands still.

Steps are written behind the code: a finished step is queued, and its value is returned at once. The barrier before the
next effect waits until everything that is queued is durable. What fails there is not raised in the code, which might
catch it: the branch stands still, and the run ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import Enum, auto
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec

from ..definitions import Definition
from ..errors import ConfigurationError, HistoryMismatch
from ..model.flow import GOES_ON, Parked, RecordedStep, Standing, StepKind, StepRecord, StepStatus
from ..model.outcome import AttemptFailed, Final
from .branches import Branches, stand_still
from .functions import StepFunction
from .history import LONG, TOO_LONG, Branch, Past, shown

log = logging.getLogger("holdfast.workflow")


class Mode(Enum):
    RUN = auto()
    UNDO = auto()
    """Replay up to where the instance came, to find what must be undone."""
    CHECK = auto()
    """Replay, and do nothing new."""


class Halt(Enum):
    """Why a branch stands still, although it could go on."""

    FRONTIER = auto()
    """Everything that is recorded is replayed, and nothing new may begin."""
    UNDO = auto()
    PAUSED = auto()
    DRAINING = auto()
    STOPPED = auto()
    """The code does not fit, a step is out of attempts, or the journal failed."""


class Undo(NamedTuple):
    """A finished step, and what undoes it."""

    ordinal: int
    name: str
    n: int
    function: StepFunction
    arguments: tuple[Any, ...]
    result: Any


class Timer(NamedTuple):
    due: float
    """By `perf_counter`: until the instance parks, other branches may go on for long."""
    delay: float


class StepCall(msgspec.Struct, frozen=True):
    """A step that is to be run now. A struct, because every step makes one."""

    function: StepFunction
    arguments: tuple[Any, ...]
    name: str
    n: int
    attempt: int
    timeout: float
    result: Any = None
    """When it undoes a step: what that returned."""

    @property
    def shown(self) -> str:
        return shown(self.name, self.n)


class Journal(Protocol):
    """The worker, as the flow sees it."""

    @property
    def draining(self) -> bool: ...

    @property
    def cancelled(self) -> bool:
        """Has the worker heard that the instance was cancelled? A record may say so earlier."""

    def record(self, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        """Make these durable. Raises LeaseLost. `alone`: nothing else of this instance goes on meanwhile."""

    async def call(self, call: StepCall) -> Any:
        """Run the function; the result, or what it raises; `Timeout` if it took too long."""

    async def cancel_children(self) -> None:
        """Cancel those that are recorded, and have not ended."""

    async def commit(self, call: StepCall, earlier: Sequence[StepRecord], done: Callable[[Any], StepRecord]) -> Any:
        """Run the function in a transaction, which commits with the earlier records and that of this step.

        May return a `Standing`. What it raises after it has called `done` is no failure of the step: whether it has
        committed may be unknown, so the run ends with it, and the next one sees.
        """


class JournalFailed(Exception):
    """Raised by `call` or `commit` for what is no failure of the step, as `LeaseLost`: the run ends with it."""


class NotCommitted(Exception):
    """A step in a transaction returned something that is not a result: the transaction is rolled back."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Machine(Branches):
    def __init__(
        self, definition: Definition, past: Past, journal: Journal, mode: Mode = Mode.RUN, *, stored: bool = True
    ) -> None:
        super().__init__(past)
        self.definition = definition
        self.journal = journal
        self.mode = mode
        self.unwritten: list[StepRecord] = []
        self.stored = stored
        """May steps of this instance be stored?"""
        self.starts = False
        """Has this run started a child?"""
        self._flush: asyncio.Future[Standing] | None = None
        self.tried: set[tuple[str, int]] = set()
        """Steps that were tried in an earlier run, and go on in this one."""
        self._counts: dict[str, int] = {}
        self._owners: dict[str, tuple[int, ...]] = {}
        """Which branch used a name last."""
        self.patches: dict[str, bool] = {}
        """The answers that were given."""
        # Why it stands still
        self.halt: Halt | None = None
        self.problem: HistoryMismatch | AttemptFailed | None = None
        self.broken: Exception | None = None
        """What the journal raised."""
        self.waits: list[str] = []
        self.timer: Timer | None = None
        """The earliest new one."""
        self.wake_at: datetime | None = None
        self.left: int | None = None
        # Undoing
        self.undos: list[Undo] = []
        self.undo_as: tuple[Final, str] | None = None

    def reopen(self) -> None:
        """Begin another run of this instance, to undo what it has done."""
        super().reopen()
        self.mode = Mode.RUN
        self.halt = None
        self.waits, self.timer, self.wake_at, self.left = [], None, None, None

    # Names

    def number(self, branch: Branch, name: str, room: int = 1) -> int:
        """Which of the steps of this name it is; the first of as many as there is room for."""
        n = self._counts.get(name, 0)
        self._counts[name] = n + room
        if branch.path or self._owners:
            if _side_by_side(self._owners.get(name, ()), branch.path):
                raise ConfigurationError(
                    f"step {name}: two branches of one gather use this name; which is first would not be the same in a "
                    "replay. Give each its own name, or a key: flow.step(name, …, key=item)"
                )
            self._owners[name] = branch.path
        return n

    # Past and frontier

    def find(self, branch: Branch, name: str, n: int, kind: str) -> RecordedStep | None:
        """The recorded step; None: it is new, and `begin` says whether it may begin."""
        if self.past.empty:
            return None
        try:
            step = self.past.find(name, n, kind, branch)
        except HistoryMismatch as mismatch:
            self.halts(mismatch)
            return None
        if not self.past.unvisited and (self._waiters or self._askers):
            self.all_visited()
        return step

    def begin_now(self, branch: Branch) -> int | None:
        """The ordinal of something new, if nothing stands in its way; otherwise `begin` decides."""
        past = self.past
        if past.unvisited or self.halt is not None or branch.refuses is not None or self.mode is not Mode.RUN:
            return None
        return past.begin(branch) if past.next_ordinal < LONG else None

    async def begin(self, branch: Branch) -> int:
        """The ordinal of something new."""
        await self.go_on(branch)
        ordinal = self.past.begin(branch)
        if ordinal >= LONG and ordinal % LONG == 0:
            log.warning(
                "a workflow instance has recorded %s steps, and each run replays them; let a step return Snooze to "
                "wait in a loop, or split it into children; at %s it is stopped", ordinal, TOO_LONG,
            )  # fmt: skip
        if ordinal >= TOO_LONG:
            await self.stop(HistoryMismatch(f"it has recorded {ordinal} steps, the limit is {TOO_LONG}"))
        return ordinal

    async def go_on(self, branch: Branch) -> None:
        """Something happens that is not recorded yet: only when the code has asked for everything that is."""
        if self.past.unvisited and self.halt is None and not await self.others(branch):
            await self.stop(self.past.left_over())
        if self.halt is not None or branch.refuses is not None:
            await stand_still()
        if self.mode is not Mode.RUN:
            await self.stop(Halt.FRONTIER)

    # Standing still

    async def stop(self, why: HistoryMismatch | AttemptFailed | Halt) -> NoReturn:
        """Let this branch stand still; the others, when they come to their next step."""
        self.halts(why)
        await stand_still()

    def halts(self, why: HistoryMismatch | AttemptFailed | Halt) -> None:
        if isinstance(why, Halt):
            self.halt = self.halt or why
        else:
            self.halt = self.halt or Halt.STOPPED
            self.problem = self.problem or why

    async def break_off(self, error: Exception) -> NoReturn:
        """End the run with this error."""
        self.halt = self.halt or Halt.STOPPED
        self.broken = self.broken or error
        await stand_still()

    async def park(
        self,
        waits: Sequence[str],
        *,
        delay: float | None = None,
        wake_at: datetime | None = None,
        left: int | None = None,
    ) -> NoReturn:
        """Let this branch wait for these. When all branches do, the instance is parked for the first of them."""
        if self.mode is not Mode.RUN:
            await self.stop(Halt.FRONTIER)
        self.waits += waits
        if delay is not None:
            self.timer = _least(self.timer, Timer(perf_counter() + delay, delay))
        self.wake_at = _least(self.wake_at, wake_at)
        self.left = _least(self.left, left)
        await stand_still()

    def parked(self, waits: Sequence[str]) -> Parked:
        """Where it stands when no branch can move."""
        delay, since = (None, 0.0) if self.timer is None else (self.timer.delay, self.timer.due - self.timer.delay)
        return Parked(self.past.mail, tuple(waits), tuple(self.unwritten), delay, since, self.wake_at, self.left)

    # Writing

    @property
    def clear(self) -> bool:
        """Is everything durable, and may the next effect begin? Otherwise `barrier` waits, and decides."""
        journal = self.journal
        return not (
            self.unwritten or self._flush is not None or self.halt is not None or journal.cancelled or journal.draining
        )

    async def barrier(self, branch: Branch) -> None:
        """Wait until everything that is queued is durable; then say whether to go on.

        The end of a sleep is written along with what comes next: it is due in every later run, too.
        """
        try:
            if self._flush is not None:
                await self.flush()
            elif not all(map(_rides_along, self.unwritten)):
                self._written(flush := self._write(), await self._shared(flush))
        except asyncio.CancelledError:
            self.interrupt(branch)
            raise
        except Exception as error:
            await self.break_off(error)
        if self.journal.cancelled:
            self.note(Standing(cancelled=True, paused=False))
        if self.halt is not None:
            await stand_still()
        if self.journal.draining:
            await self.stop(Halt.DRAINING)

    async def flush(self) -> None:
        """Make everything durable that is queued now: it is in the batch that is being written, or in the next one."""
        if (others := self._flush) is not None:
            self._written(others, await self._shared(others))
        if self._flush is None and self.unwritten:
            self._written(flush := self._write(), await self._shared(flush))
        elif (others := self._flush) is not None:
            self._written(others, await self._shared(others))

    def _shared(self, flush: asyncio.Future[Standing]) -> asyncio.Future[Standing]:
        """What to wait for. A branch that is stopped must not take the answer from the others that wait for it."""
        return flush if self.active == 1 else asyncio.shield(flush)

    def _write(self) -> asyncio.Future[Standing]:
        """Begin to write what is queued."""
        records, self.unwritten = self.unwritten, []
        self.stored = True
        answer = self.journal.record(records, alone=self.active == 1)
        flush = self._flush = answer if isinstance(answer, asyncio.Future) else asyncio.ensure_future(answer)
        return flush

    def _written(self, flush: asyncio.Future[Standing], standing: Standing) -> None:
        """It was written. If it failed, it stays: nothing is written after it, and all who wait for it are told."""
        if self._flush is flush:
            self._flush = None
        if standing is not GOES_ON:
            self.note(standing)

    @property
    def writing(self) -> bool:
        return self._flush is not None

    def note(self, standing: Standing) -> None:
        """What others want of the instance."""
        if standing.cancelled and self.undo_as is None:
            self.undo_as = (Final.CANCELLED, "cancelled while it ran")
            self.halt = self.halt or Halt.UNDO
        elif standing.paused and self.undo_as is None:
            self.halt = self.halt or Halt.PAUSED


_SLEEP, _DONE = StepKind.SLEEP.value, StepStatus.DONE.value


def _rides_along(record: StepRecord) -> bool:
    return record.kind == _SLEEP and record.status == _DONE


def _side_by_side(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Do these branches run at the same time? They do within one gather."""
    for at in range(0, min(len(one), len(other)), 2):
        if one[at] != other[at]:
            return False
        if one[at + 1] != other[at + 1]:
            return True
    return False


def _least(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
