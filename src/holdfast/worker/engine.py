"""The engine of one worker: a claimer, a fixed number of hands, a completer, and a watch over them.

    claim loop ──▶ ready ──▶ hands (run one attempt each) ──▶ completer

A hand is free when its handler returns, not when the ending is written. Rows are claimed ahead when handlers are short:
as many as the measured time lets start within AHEAD seconds. Claimed rows that still wait after STALE seconds, because
something slow holds every hand, go back to the others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..db.link import Link, backoff
from ..db.safety import check_server
from ..errors import Cancelled, ConfigurationError, Contended, LeaseLost, Timeout, Unreachable
from ..inbox.claim import Known
from ..inbox.claimer import Claimer
from ..model.job import Claim
from ..model.outcome import Abandoned, Lost, Released
from ..ownership import members
from ..ownership.shares import Shares
from ..probes import probe
from ..schema import migrate
from . import ledger as marks
from .completer import Completer
from .ledger import Ledger
from .loading import served_queues
from .runner import Draining, JobRunner, Running
from .settings import WorkerSettings
from .tally import Tally

if TYPE_CHECKING:
    from ..app import Holdfast

log = logging.getLogger("holdfast.worker")

AHEAD = 0.25
STALE = 2.0
WATCH_EVERY = 0.05
TURN = 0.001
"""Seconds that the hands take at a time, all together, before the event loop goes round."""
SOLO_WAIT = 10.0
"""Seconds that a worker waits for its other jobs to finish before it runs a suspect alone."""
SOLO_ALONE = 10.0
"""Seconds that a suspect has the worker for itself. A long job that outlived a crash must not hold up all others."""
SOLO_TRIES = 3
"""After so many waits in vain the suspect runs with company: late is better than never."""
SOON = 0.02
"""Seconds: a worker that looks again within them is awake, and nobody needs to wake it."""
IN_VAIN = 0.015
"""Seconds for which a worker that was woken for nothing does not hear; so a flood of wake-ups is no flood of looks."""
UNWRITTEN = 2000
"""Most endings that may wait to be written before nothing more is started."""


class Engine:
    """Claims, runs and ends jobs until it is drained."""

    def __init__(self, app: Holdfast, settings: WorkerSettings, ledger: Ledger, name: str) -> None:
        self.name = name
        self.settings = settings
        self.ledger = ledger
        self.tally = Tally()
        self._definitions = {kind: task.definition for kind, task in app.tasks.items()}
        self._queues = served_queues(app, settings)
        if not self._definitions:
            raise ConfigurationError(
                "this application has no tasks; register some with @hf.task before starting a worker"
            )
        self._database = app.database
        self._claim_link = Link(app.database, f"claim {name}", deadline=settings.deadline)
        self._write_link = Link(app.database, f"write {name}", deadline=settings.deadline)
        self._key_link = Link(app.database, f"keys {name}", deadline=settings.deadline)
        """Connects when the first ordered row has ended."""
        known = Known({kind: (d.oldest, d.version) for kind, d in self._definitions.items()})
        ordered = any(d.ordered for d in self._definitions.values())
        self.claimer = Claimer(self._claim_link, name, self._queues, known, settings.lease, ordered)
        self._shares = Shares(self._claim_link, name)
        self._completer = Completer(self._write_link, name, ledger, self.tally, settings.lease, settings.batch)
        self._completer.busy = lambda: bool(self._running or self._ready)
        self._completer.vacate = self._vacate
        self._runner: JobRunner
        self._ready: deque[Claim] = deque()
        self._ready_since = 0.0
        self._running: dict[int, Running] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        self._turn_ends = 0.0
        self._turn_ended = False
        self._demand = asyncio.Event()
        self._vacant = asyncio.Event()
        """An ordered row has ended here: its key may have a next one."""
        self._woken = asyncio.Event()
        self._handler_time = AHEAD
        self._draining = asyncio.Event()
        self._suspects = False
        self._solo_at = 0.0
        self._solo_misses = 0
        self._hands: list[asyncio.Task[None]] = []
        self._loops: list[asyncio.Task[None]] = []
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called when a loop of the engine itself ends by an error; set by whoever runs it."""

    # Starting and stopping

    async def start(self) -> None:
        """Check the server, register, and begin to claim."""
        try:
            await self._enter()
        except Exception as error:
            if (refusal := self._database.refusal(error)) is not None:  # a right that is missing shows after the login
                raise refusal from None
            raise
        self.ledger.set_name(self.name)
        self._completer.start()
        for number in range(self.settings.concurrency):
            hand = asyncio.create_task(self._hand(), name=f"holdfast hand {number}")
            hand.add_done_callback(self._loop_ended)
            self._hands.append(hand)
        for loop in (self._claim_loop, self._hand_over_loop, self._watch_loop):
            task = asyncio.create_task(loop(), name=f"holdfast {loop.__name__}")
            task.add_done_callback(self._loop_ended)
            self._loops.append(task)
        log.info("worker %s started: queues %s, concurrency %s", self.name, self._queues, self.settings.concurrency)

    async def _enter(self) -> None:
        connection = await self._database.connect("start")
        try:
            await check_server(connection)
            await migrate.check(connection, self._database.schema)
        finally:
            await connection.close()
        self._runner = JobRunner(self._database, self.name, self._definitions, self.settings.concurrency, self.tally)
        await members.register(self._claim_link, self.name, self.metadata())

    def metadata(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": self._queues,
            "kinds": {kind: [d.oldest, d.version] for kind, d in self._definitions.items()},
            "concurrency": self.settings.concurrency,
            "lease": self.settings.lease,
        }

    def register_again(self) -> None:
        """The registry has lost us."""
        if not self._draining.is_set():
            task = asyncio.create_task(self._register_again(), name="holdfast register")
            task.add_done_callback(self._loops.remove)
            self._loops.append(task)

    async def _register_again(self) -> None:
        try:
            await members.register(self._write_link, self.name, self.metadata())
        except Exception:
            log.exception("worker %s could not register again; the next heartbeat asks for it", self.name)

    def drain(self) -> None:
        """Stop claiming and hand back what did not start. `stop` does the rest."""
        self._draining.set()
        self._demand.set()
        self._vacant.set()
        self._woken.set()

    def wake(self) -> None:
        """Work may have come: look now, or once more if it is looking."""
        self._woken.set()

    @property
    def handlers_left(self) -> bool:
        """Did handlers outlast `stop`? Then they are in threads, which only the end of the process ends."""
        return bool(self._running)

    async def stop(self, within: float | None = None) -> None:
        """Drain: hand back what did not start, let what runs finish, write every ending. `leave` comes next."""
        self.drain()
        if not self._loops:
            return  # it never started
        probe("drain.before")
        await self._say("draining")
        await self._end_claiming()
        self._release_ready()
        deadline = time.monotonic() + (self.settings.drain if within is None else within)
        while self._running and time.monotonic() < deadline:
            await self._release_vacated()
            await asyncio.sleep(0.01)
        await self._stop_running()
        for task in [*self._hands, *self._loops]:
            task.cancel()
        await asyncio.gather(*self._hands, *self._loops, return_exceptions=True)
        if not await self._completer.close(within=10):
            log.warning(
                "%s endings could not be written before the end; their leases run out",
                self._completer.backlog,
            )
        await self._runner.close()
        await self._release_unknown()
        await self._release_vacated()
        self.tally.running, self.tally.ready = len(self._running), 0
        self.tally.publish(self.ledger)

    async def leave(self) -> None:
        """Leave the registry; after `stop`, and best after the last heartbeat, which would say that we are back."""
        await self._say("dead")
        for link in (self._claim_link, self._write_link, self._key_link):
            await link.close()
        log.info("worker %s stopped: %s completed", self.name, self.tally.completed)

    async def stop_now(self) -> None:
        """As `stop`, without waiting for what runs."""
        await self.stop(within=0)

    async def _end_claiming(self) -> None:
        """A claim that is under way may have committed: its rows must be known before they can go back."""
        claiming = self._loops[:2]
        try:
            async with asyncio.timeout(5):
                await asyncio.wait(claiming)
        except TimeoutError:
            for loop in claiming:
                loop.cancel()

    async def _stop_running(self) -> None:
        for running in list(self._running.values()):
            running.stop(Draining("the worker stops"))
        deadline = time.monotonic() + 1
        while any(r.cancellable for r in self._running.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._running:
            log.warning("%s handlers did not end when asked; their leases run out", len(self._running))

    async def _release_unknown(self) -> None:
        """A claim whose answer was lost may have left rows in our name; nothing runs any more, so they can go."""
        if not self._running:
            with suppress(Unreachable, Contended):
                await self._write_link.run("inbox", "release_worker", self.name, deadline=5)

    async def _release_vacated(self) -> None:
        """We claim no more: the next of an ordered key is for others."""
        with suppress(Unreachable, Contended):
            if self.claimer.guarded.vacated > 0:
                await self._hand_over(0)

    async def _say(self, status: str) -> None:
        try:
            await members.leave(self._write_link, self.name, status, self.ledger.counters())
        except (Unreachable, Contended) as error:
            log.warning("could not say that worker %s is %s: %s", self.name, status, error)

    def _release_ready(self) -> None:
        while self._ready:
            self._completer.add(self._ready.popleft(), Released())

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            assert error is not None
            log.error("the worker cannot go on", exc_info=error)
            self.on_failure(error)

    # Claiming

    async def _claim_loop(self) -> None:
        pause = self.settings.poll_min
        failures = 0
        while not self._draining.is_set():
            want = self._want()
            if want <= 0:
                self.ledger.set_state(marks.BUSY)
                await self._wait_demand()
                continue
            woken = self._woken.is_set()
            self._woken.clear()
            try:
                found = await self._claim(want)
                failures = 0
            except Exception as error:
                failures += 1
                self.tally.reconnects += 1
                self._note_failure(error, failures)
                self.ledger.set_state(marks.BUSY)
                await self._sleep(backoff(failures))
                continue
            if found:
                pause = self.settings.poll_min
                self.ledger.set_state(marks.AWAKE)
                continue
            if woken:  # another was quicker, or it is nothing for us
                self.ledger.set_state(marks.AWAKE, IN_VAIN)
                await self._sleep(IN_VAIN)
            nap = pause * random.uniform(0.75, 1.25)
            self.ledger.set_state(marks.AWAKE if nap <= SOON else marks.ASLEEP, nap)
            if await self._doze(nap):
                pause = min(pause * 1.5, self.settings.poll_max)
        self.ledger.set_state(marks.BUSY)

    def _note_failure(self, error: Exception, failures: int) -> None:
        if not isinstance(error, (Unreachable, Contended)):
            log.error("the claim failed; trying again", exc_info=error)
        elif failures == 1:
            log.warning("claim: %s; trying again", error)

    async def _claim(self, want: int) -> bool:
        """False when there is nothing to do for now."""
        if self._suspects and time.monotonic() >= self._solo_at and await self._run_suspect():
            return True
        if self._draining.is_set():
            return False
        if self.claimer.guarded.vacated > self.settings.batch // 2:  # more than one link can hand over in good time
            await self._hand_over(self.ledger.room, self._claim_link)
            return True
        at = marks.now()
        owned = [queue for queue in self.claimer.free.owned if queue in self._queues]
        self.claimer.guarded.own(await self._shares.owned(owned))
        batch = await self.claimer.claim(want)
        if batch.suspects is not None:
            self._suspects = batch.suspects
        self.tally.rescans = self.claimer.rescans
        self._take(batch.claims, at)
        if self.claimer.guarded.vacated:
            self._vacant.set()
        return bool(batch.claims) or batch.more

    def _vacate(self, claim: Claim) -> None:
        self.claimer.guarded.vacate(claim)
        self._vacant.set()

    async def _hand_over_loop(self) -> None:
        """Go on with the keys whose row has ended here."""
        failures = 0
        while not self._draining.is_set():
            await self._vacant.wait()
            self._vacant.clear()
            while self.claimer.guarded.vacated > 0 and not self._draining.is_set():
                waiting = self.claimer.guarded.vacated
                try:
                    # One row has ended for each that may come, so there is room; claims along the lanes leave it.
                    await self._hand_over(0 if self._overloaded() else self.ledger.room)
                    failures = 0
                    if self.claimer.guarded.vacated >= waiting:  # others hold those keys, for the moment of a claim
                        await asyncio.sleep(self.settings.poll_min)
                except Exception as error:
                    failures += 1
                    self._note_failure(error, failures)
                    await asyncio.sleep(backoff(failures))

    async def _hand_over(self, limit: int, link: Link | None = None) -> None:
        at = marks.now()
        self._take(await self.claimer.guarded.hand_over(link or self._key_link, limit), at)

    def _take(self, claims: list[Claim], at: int) -> None:
        if not claims:
            return
        if not self._ready:
            self._ready_since = time.monotonic()
        hold = self.ledger.hold
        for claim in claims:
            claim.slot = hold(claim.id, claim.generation, at)
        self.tally.claimed += len(claims)
        self._ready.extend(claims)
        self._begin_turn()
        for _ in range(min(len(claims), len(self._idle))):
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)

    def _want(self) -> int:
        """How many rows to claim now: 0 until there is room worth a round trip."""
        if self._overloaded():
            return 0
        held = len(self._ready) + len(self._running) + self.claimer.guarded.vacated
        ahead = self._ahead()
        room = min(self.settings.concurrency + ahead - held, self.settings.batch, self.ledger.room)
        return room if room >= max(1, ahead // 2) or not self._ready else 0

    def _ahead(self) -> int:
        """How many rows to hold beyond the running ones."""
        if self._handler_time >= AHEAD:
            return 0
        return min(self.settings.prefetch, int(self.settings.concurrency * AHEAD / max(self._handler_time, 1e-6)))

    def _overloaded(self) -> bool:
        """Too much is unwritten, or nobody would look after what is claimed now."""
        return self._completer.backlog >= UNWRITTEN or self._keeper_late()

    async def _wait_demand(self) -> None:
        self._demand.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._demand.wait()

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def _doze(self, seconds: float) -> bool:
        """As `_sleep`, but a wake-up cuts it short; was it slept to its end?"""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return True
        return False

    def _keeper_late(self) -> bool:
        """Nobody has renewed for a while: claim nothing more that nobody would look after."""
        beat = self.ledger.beat
        return beat != 0 and marks.now() - beat > self.settings.renew_every * 2e9

    async def _run_suspect(self) -> bool:
        """Run a row whose last attempt took its process down, alone."""
        if not await self._quiet():
            self._solo_misses += 1
            self._solo_at = time.monotonic() + SOLO_WAIT
            if self._solo_misses < SOLO_TRIES:
                return False
        at = marks.now()
        claim = await self.claimer.claim_suspect()
        self._solo_misses = 0
        if claim is None:
            self._suspects = False
            return False
        self._take([claim], at)
        deadline = time.monotonic() + SOLO_ALONE
        while (claim in self._ready or self._running or not self._completer.idle) and not self._draining.is_set():
            if time.monotonic() > deadline:
                self._solo_at = deadline + SOLO_WAIT
                break
            await asyncio.sleep(0.002)
        return True

    async def _quiet(self) -> bool:
        """Wait, claiming nothing, until nothing runs here and every ending is written."""
        deadline = time.monotonic() + SOLO_WAIT
        while self._running or self._ready or not self._completer.idle:
            if time.monotonic() > deadline or self._draining.is_set():
                return False
            await asyncio.sleep(0.002)
        return True

    # Running

    async def _hand(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            if not self._ready or self._draining.is_set() or self._completer.backlog >= UNWRITTEN:
                await self._rest()
            elif time.perf_counter() > self._turn_ends:
                await self._end_turn()
            else:
                await self._run(self._ready.popleft(), task)

    async def _rest(self) -> None:
        if self._ready and not self._draining.is_set():  # too much is unwritten: let the completer have its turn
            await asyncio.sleep(0.001)
            return
        self._demand.set()
        future = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        await future

    async def _end_turn(self) -> None:
        """Handlers that never wait must not keep the claim loop and the completer from running beside them.

        One turn for all hands together: were it one each, they would run one after the other until nothing is ready.
        """
        if not self._turn_ended:
            self._turn_ended = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        await asyncio.sleep(0)

    def _begin_turn(self) -> None:
        self._turn_ended = False
        self._turn_ends = time.perf_counter() + TURN

    async def _run(self, claim: Claim, hand: asyncio.Task[None]) -> None:
        if self.ledger.signal_of(claim.slot) == marks.LOST or self.ledger.expired(claim.slot, self.settings.lease):
            self._completer.add(claim, Lost())
            return
        if claim.cancelled:
            self.tally.cancelled += 1
            self._completer.add(claim, Abandoned("cancelled while an earlier attempt ran", cancelled=True))
            return
        definition = self._definitions[claim.kind]
        began = time.perf_counter()
        running = Running(claim, began + definition.timeout, hand, definition.is_async)
        self.ledger.start(claim.slot, marks.now() + int((definition.timeout + self.settings.grace) * 1e9))
        self._running[claim.slot] = running
        self.tally.started += 1
        # If this raises, the worker ends and a thread may still be at it: the row stays in the ledger, for the
        # supervisor to hand back when the process is gone, or for its lease to run out.
        outcome = await self._runner.run(running)
        del self._running[claim.slot]
        took = time.perf_counter() - began
        # Quick to believe that handlers are slow, slow to believe that they are fast.
        self._handler_time += (took - self._handler_time) * (0.5 if took > self._handler_time else 0.1)
        if outcome is None:
            self.ledger.free(claim.slot)
            if claim.ordered:
                self._vacate(claim)
        else:
            self._completer.add(claim, outcome)
        if len(self._ready) * 2 < self.settings.prefetch:
            self._demand.set()

    # Watching

    async def _watch_loop(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            if self._running:
                self._stop_overdue()
            if self._draining.is_set():
                self._release_ready()
            if self._ready and self._running and time.monotonic() - self._ready_since > STALE:
                self._hand_back_stale()
            self.tally.running, self.tally.ready = len(self._running), len(self._ready)
            self.tally.publish(self.ledger)

    def _stop_overdue(self) -> None:
        now = time.perf_counter()
        for running in list(self._running.values()):
            slot = running.claim.slot
            if now > running.deadline:
                limit = self._definitions[running.claim.kind].timeout
                running.stop(Timeout(f"the attempt ran longer than the {limit:g} s that its task allows"))
            elif self.ledger.expired(slot, self.settings.lease):
                running.stop(LeaseLost("nobody renewed the lease in time"))

    def read_signals(self) -> None:
        """The keeper has left signals in the ledger."""
        for running in list(self._running.values()):
            match self.ledger.signal_of(running.claim.slot):
                case marks.LOST:
                    running.stop(LeaseLost("another owner may hold the job"))
                case marks.CANCELLED:
                    running.stop(Cancelled("cancelled while it ran"))

    def _hand_back_stale(self) -> None:
        """Every hand is busy with something slow; others may have time."""
        if len(self._running) >= self.settings.concurrency:
            log.info("handing back %s rows that could not start within %s s", len(self._ready), STALE)
            self._release_ready()
            self._handler_time = max(self._handler_time, AHEAD)
        self._ready_since = time.monotonic()
