"""The hands of a worker: a fixed number. Each takes the next claimed row, runs the attempt, and passes on its outcome.

A hand is free when its handler returns, not when the ending is written. Claimed rows that still wait after STALE
seconds, because every hand has a slow handler, are handed back. If a handler blocks the event loop itself, the keeper
recalls them. So a hand marks a row as started first, and then checks for a recall; the keeper marks the recall first,
and then checks which rows have started. At least one of them sees the other.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...definitions import Definition, Runs
from ...errors import Cancelled, LeaseLost, Timeout
from ...model.job import Claim
from ...model.occurrences import Occurrences
from ..handler_processes.pool import GIVE_IN
from ..leases import ledger as marks
from ..leases.ledger import Ledger
from ..settings import WorkerSettings
from .completer import Completer
from .contexts import BLOCKS
from .deciding import Draining, Unstarted, barred, unstarted
from .permits import Permits
from .running import Running
from .traced import AttemptRunner

AHEAD = 0.1
"""Rows are claimed ahead when handlers are short: as many as can start within these seconds, as measured."""
STALE = 2.0
TURN = 0.001
"""Seconds that all hands together run before they yield to the event loop."""
AHEAD_BYTES = 32 * 1024 * 1024
"""Most bytes of payloads that are claimed ahead, estimated from the latest ones."""
LATER = (Runs.IN_PROCESS, Runs.IN_TRANSACTION, Runs.AS_FLOW)
"""Their timeout begins when there is a process or a transaction for them; that of a workflow with each step."""
UNWRITTEN = 2000
"""Most endings that may wait to be written before nothing more is started."""


class _Plan(NamedTuple):
    """What a hand has to know of a task, worked out once: every attempt needs it."""

    timeout: float
    kill_after: int
    """Nanoseconds after which the keeper kills what does not stop."""
    stoppable: bool
    later: bool
    """Does its timeout begin later than the attempt?"""
    flow: bool
    """Is it a workflow? Then it is undone if it was cancelled, and has no timeout of its own."""

    @classmethod
    def of(cls, definition: Definition, grace: float) -> _Plan:
        if definition.runs is Runs.IN_PROCESS:  # the pool kills this process, and nothing else with it
            grace = max(grace, 10 * GIVE_IN)
        kill_after = int((definition.timeout + grace) * 1e9)
        flow = definition.runs is Runs.AS_FLOW
        return cls(definition.timeout, kill_after, definition.stoppable, definition.runs in LATER, flow)


class Hands:
    closed = False

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        settings: WorkerSettings,
        ledger: Ledger,
        occurrences: Occurrences,
        completer: Completer,
        draining: asyncio.Event,
        permits: Permits,
    ) -> None:
        self._permits = permits
        permits.on_lent = self._lent_one
        self._definitions = definitions
        self._plans = {kind: _Plan.of(definition, settings.grace) for kind, definition in definitions.items()}
        self._settings = settings
        self._lease = int(settings.lease * 1e9)
        """In nanoseconds, as the ledger's clock counts."""
        self._ledger = ledger
        self._occurrences = occurrences
        self._completer = completer
        self._draining = draining
        self._runner: AttemptRunner
        self.coming = 0
        """Claimed rows that are about to be taken."""
        self._ready: deque[Claim] = deque()
        self._ready_since = 0.0
        self._waiting_since = 0
        """Rows that were ready at `_ready_since` and have not started."""
        self._running: dict[int, Running] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        self._turn_ends = 0.0
        self._turn_ended = False
        self._handler_time = AHEAD
        self._payload_bytes = 0.0
        """Recent average size of a payload."""
        self._awake = 0
        """Hands that are not idle."""
        self.hire: Callable[[], bool] = lambda: False
        """Start one more hand, if there may be one more; set by the engine."""
        self.demand = asyncio.Event()
        """Set when there is room, or will be in a moment."""
        self.vacate: Callable[[Claim], None] = lambda claim: None
        """Called when a row of an ordered key has ended without the completer."""

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def lent(self) -> int:
        """How many rows leave room for others: their instances only wait for the database."""
        return self._permits.lent

    @property
    def ready(self) -> int:
        return len(self._ready)

    @property
    def held(self) -> int:
        return self.coming + len(self._ready) + len(self._running)

    @property
    def waiting(self) -> bool:
        """Are there claimed rows that no hand has taken yet?"""
        return bool(self._ready)

    @property
    def ahead(self) -> int:
        """How many rows to hold beyond the running ones."""
        if self._handler_time >= AHEAD:
            return 0
        in_time = self._settings.concurrency * AHEAD / max(self._handler_time, 1e-6)
        return int(min(self._settings.prefetch, in_time, AHEAD_BYTES / max(self._payload_bytes, 1)))

    def waits(self, claim: Claim) -> bool:
        return claim in self._ready

    def take_soon(self, claims: list[Claim], at: int) -> None:
        """As `take`, in the next round of the event loop."""
        self.coming += len(claims)
        self._ledger.reserved += len(claims)
        asyncio.get_running_loop().call_soon(self._take_now, claims, at)

    def _take_now(self, claims: list[Claim], at: int) -> None:
        self.coming -= len(claims)
        self._ledger.reserved -= len(claims)
        self.take(claims, at)

    def take(self, claims: list[Claim], at: int) -> None:
        """Take these claimed rows; their claim was sent at `at`."""
        if not claims:
            return
        if not self._ready:
            self._ready_since, self._waiting_since = time.monotonic(), len(claims)
        hold = self._ledger.hold
        for claim in claims:
            claim.slot = hold(claim.id, claim.generation, at)
            claim.sent = at
            if claim.expires_in is not None:
                claim.start_by = at + int(claim.expires_in * 1e9)
        self._occurrences.claimed(claims)
        self._weigh(claims)
        if self._ledger.recalled(at):
            for claim in claims:
                self._leave(claim, Unstarted.RECALLED)
            return
        self._ready.extend(claims)
        self._begin_turn()
        for _ in range(len(claims)):
            if not self._let_begin():
                break

    def _lent_one(self) -> None:
        if not self._ready:
            self.demand.set()  # there is room for another row
        else:
            self._let_begin()

    def _let_begin(self) -> bool:
        """Let one more hand begin, if there is a row for it and hands are missing: idle, or gone to wait."""
        if not self._ready or not self._missing:
            return False
        while self._idle:
            future = self._idle.popleft()
            if not future.done():
                self._awake += 1
                future.set_result(None)
                return True
        return self.hire()

    @property
    def _missing(self) -> bool:
        """May one more hand work? Those that wait for the database, and have lent their permit, do not count."""
        return self._awake - self._permits.lent < self._settings.concurrency

    def _weigh(self, claims: list[Claim]) -> None:
        """Update the average: fast when payloads get larger, slowly when they get smaller."""
        mean = sum([len(claim.payload) for claim in claims]) / len(claims)
        self._payload_bytes += (mean - self._payload_bytes) * (1 if mean > self._payload_bytes else 0.1)

    def hand_back_ready(self) -> None:
        """Hand back what has not started."""
        while self._ready:
            self._leave(self._ready.popleft(), Unstarted.WAITED)

    def _leave(self, claim: Claim, why: Unstarted) -> None:
        self._completer.add(claim, unstarted(why))

    # Running

    async def work(self, runner: AttemptRunner) -> None:
        """Run one hand until it is cancelled; in a drain, until its handler has ended, which may swallow that."""
        self._runner = runner
        task, permits, usual = asyncio.current_task(), self._permits, self._settings.concurrency
        assert task is not None
        self._awake += 1
        while not self._draining.is_set():
            if not self._ready or permits.free <= 0 or self._completer.backlog >= UNWRITTEN:
                await self._rest()
            elif self._awake - permits.lent > usual:  # those that it stood in for are back
                await self._be_idle()
            elif time.perf_counter() > self._turn_ends:
                await self._end_turn()
            else:
                permits.free -= 1
                try:
                    await self._run(self._next(), task)
                finally:
                    permits.free += 1
                    if permits.returning:
                        permits.pass_on()

    def _next(self) -> Claim:
        claim = self._ready.popleft()
        self._waiting_since -= 1
        if self._waiting_since <= 0:  # all have started that waited then: those that wait now came later
            self._ready_since, self._waiting_since = time.monotonic(), len(self._ready)
        return claim

    async def _rest(self) -> None:
        if self._ready and self._permits.free > 0:  # too many endings are unwritten: let the completer run
            await asyncio.sleep(0.001)
            return
        if not self._ready:
            self.demand.set()
        await self._be_idle()

    async def _be_idle(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        self._awake -= 1
        await future

    async def _end_turn(self) -> None:
        """Yield: handlers that never wait must not keep the claim loop and the completer from running.

        One turn for all hands together: with one each, they would run one after the other until nothing is ready.
        """
        if not self._turn_ended:
            self._turn_ended = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        await asyncio.sleep(0)

    def _begin_turn(self) -> None:
        self._turn_ended = False
        self._turn_ends = time.perf_counter() + TURN

    async def _run(self, claim: Claim, hand: asyncio.Task[None]) -> None:
        ledger, slot, at = self._ledger, claim.slot, marks.now()
        if at - claim.sent > self._lease and ledger.expired(slot, self._settings.lease, at):
            self._leave(claim, Unstarted.LEASE_OVER)
            return
        timeout, kill_after, stoppable, later, flow = plan = self._plans[claim.kind]
        if (claim.cancelled or claim.expires_in is not None) and (why := barred(claim, flow, at)) is not None:
            self._leave(claim, why)
            return
        began = time.perf_counter()
        running = Running(claim, math.inf if later else began + timeout, hand, stoppable, began)
        ledger.start(slot, 0 if later else at + kill_after)
        if flow:
            running.watch_steps = lambda left: self._watch_steps(slot, left)
        elif later:
            running.begins = lambda: self._start_clock(running, plan)
        if (notice := ledger.notice_of(slot)) in (marks.LOST, marks.RECALLED):  # after it counts as started
            self._leave(claim, Unstarted.LEASE_LOST if notice == marks.LOST else Unstarted.RECALLED)
            return
        self._running[slot] = running
        self._occurrences.started(claim)
        # If this raises, the worker ends, and a thread may still be running: the row stays in the ledger, for the
        # supervisor to hand back when the process is gone, or until its lease expires.
        if (outcome := self._runner.at_once(running)) is None:
            outcome = await self._runner.run(running)
        del self._running[slot]
        ended = time.perf_counter()
        took, claim.took = ended - began, ended - running.began
        if took > BLOCKS and self._definitions[claim.kind].runs is Runs.ON_LOOP and not running.waited:
            self._occurrences.loop_blocked(claim, took)
        if flow:
            took = running.busy
        # Fast when handlers get slower, slowly when they get faster.
        self._handler_time += (took - self._handler_time) * (0.5 if took > self._handler_time else 0.1)
        if outcome is None:
            ledger.free(slot)
            if claim.ordered:
                self.vacate(claim)
        else:
            self._completer.add(claim, outcome)
        if len(self._ready) * 2 < self._settings.prefetch:
            self.demand.set()

    def _start_clock(self, running: Running, plan: _Plan) -> None:
        running.deadline = time.perf_counter() + plan.timeout
        self._ledger.start(running.claim.slot, marks.now() + plan.kill_after)

    def _watch_steps(self, slot: int, left: float | None) -> None:
        """Let the keeper kill this process if a step, which cannot be stopped, runs on after its timeout; None: not."""
        self._ledger.start(slot, marks.now() + int((left + self._settings.grace) * 1e9) if left is not None else 0)

    # Watching

    def watch(self) -> None:
        """Stop what is overdue and hand back what waits too long; called every WATCH_EVERY."""
        if self._running:
            self._stop_overdue()
        if self._draining.is_set():
            self.hand_back_ready()
        if self._ready and self._running and time.monotonic() - self._ready_since > STALE:
            self._hand_back_stale()

    def read_notices(self) -> None:
        """Act on the notices that the keeper has left in the ledger."""
        for running in list(self._running.values()):
            match self._ledger.notice_of(running.claim.slot):
                case marks.LOST:
                    running.stop(LeaseLost("another owner may hold the job"))
                case marks.CANCELLED:
                    running.stop(Cancelled("cancelled while it ran"))

    async def stop_running(self) -> None:
        """Tell running handlers to stop, and wait up to a second."""
        for running in list(self._running.values()):
            running.stop(Draining("the worker stops"))
        deadline = time.monotonic() + 1
        while any(r.cancellable for r in self._running.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for running in self._running.values():
            running.given_up = True
        if self._running:
            self._occurrences.handlers_left(len(self._running))

    def _stop_overdue(self) -> None:
        now, at = time.perf_counter(), marks.now()
        for running in list(self._running.values()):
            slot = running.claim.slot
            if now > running.deadline:
                limit = self._definitions[running.claim.kind].timeout
                running.stop(Timeout(f"the attempt ran longer than the {limit:g} s that its task allows"))
            elif self._ledger.expired(slot, self._settings.lease, at):
                running.stop(LeaseLost("the lease was not renewed in time"))

    def _hand_back_stale(self) -> None:
        """Hand back what waits if every hand has a slow handler; other workers may have room."""
        if self._permits.free <= 0:
            self._occurrences.start_overdue(list(self._ready), STALE)
            self.hand_back_ready()
            self._handler_time = max(self._handler_time, AHEAD)
        self._ready_since, self._waiting_since = time.monotonic(), len(self._ready)
