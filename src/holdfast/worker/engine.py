"""The engine of one worker: claiming, a fixed number of hands, a completer, and a loop that watches them.

claiming ──▶ ready ──▶ hands (run one attempt each) ──▶ completer
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from ..db.link import Link
from ..db.safety import check_server
from ..definitions import Definition, Runs
from ..errors import ConfigurationError, Contended, Unreachable
from ..inbox import ending
from ..inbox.claimer import Claimer
from ..kinds.declare import Declared, declare
from ..model.job import Claim
from ..model.keep import keep_of
from ..model.occurrences import Occurrences, Subscriber
from ..outbox import KIND
from ..ownership import members
from ..ownership.shares import Shares
from ..probes import probe
from ..receiving.consuming import Consuming
from ..schedules import zones
from ..schema import migrate
from ..version import __version__
from .attempts.completer import Completer
from .attempts.hands import Hands
from .attempts.permits import Permits
from .attempts.runner import JobRunner
from .attempts.traced import AttemptRunner, traced
from .claiming.in_place import InPlace
from .claiming.isolated import IsolatedClaiming
from .claiming.loops import Claiming
from .claiming.unanswered import Unanswered
from .flows.recording import FlowRecords
from .leases.ledger import Ledger
from .lifespan import LifespanTask
from .log_lines import LogLines
from .logs import mark_records
from .numbers.counting import PUBLISH_EVERY, Counting
from .relay.relaying import Relaying
from .served import Served
from .settings import Suspects, WorkerSettings
from .tally import Tally

WATCH_EVERY = 0.05
RELIEF = 400
"""Most hands beyond the permits, for instances that begin while others wait for the database."""


class Engine:
    """Claims, runs and ends jobs until it is drained."""

    def __init__(
        self,
        served: Served,
        settings: WorkerSettings,
        ledger: Ledger,
        name: str,
        suspects: Suspects = Suspects.BETWEEN,
        subscribers: Sequence[Subscriber] = (),
    ) -> None:
        self.name = name
        self.settings = settings
        self.ledger = ledger
        self.tally = Tally()
        self._counting = Counting(ledger.board)
        self._published_at = 0.0
        self.occurrences = occurrences = Occurrences(self.tally, self._counting, LogLines(), *subscribers)
        self._definitions = served.definitions
        self._queues = list(served.queues)
        if not self._definitions and not served.routes and not served.consumers:
            raise ConfigurationError(
                "this application has no tasks; register some with @hf.task before starting a worker, and name the "
                "modules that have them: --import shop.tasks, or Holdfast(imports=['shop.tasks'])"
            )
        self._database = served.database
        self._import_path = served.import_path
        self._tracing = served.tracing
        self._claim_link, self._write_link, self._key_link = (
            Link(served.database, f"{purpose} {name}", deadline=settings.deadline)
            for purpose in ("claim", "write", "keys")
        )
        self._draining = asyncio.Event()
        ordered = any(d.ordered for d in self._definitions.values())
        self.claimer = Claimer(self._claim_link, name, self._queues, served.known, settings.lease, ordered)
        keep = keep_of({kind: d.keep for kind, d in self._definitions.items()})
        self._completer = Completer(self._write_link, ledger, occurrences, settings.lease, settings.batch, keep)
        permits = self._permits = Permits(settings.concurrency)
        self._hands = Hands(self._definitions, settings, ledger, occurrences, self._completer, self._draining, permits)
        self._hands.hire = self._hire
        self._records = FlowRecords(served.database, occurrences, ledger, settings, name, self._draining, permits)
        self._unanswered = Unanswered(self._write_link, name, ledger, occurrences, settings.deadline)
        self._unanswered.wake = self._wake_all
        self._relaying = Relaying(
            served if suspects is not Suspects.ONLY else replace(served, routes=()), settings, ledger, name,
            self._completer, occurrences, self._draining, self._unanswered,
        )  # fmt: skip
        self._consuming = Consuming(
            served.database, served.consumers if suspects is not Suspects.ONLY else (), name, occurrences,
            deadline=settings.deadline,
        )  # fmt: skip
        self._suspects = suspects
        self.claiming = (IsolatedClaiming if suspects is Suspects.ONLY else Claiming)(
            self.claimer, Shares(self._claim_link, name), (self._claim_link, self._key_link), self._hands,
            self._completer, settings, ledger, occurrences, self._draining, self._unanswered,
        )  # fmt: skip
        if isinstance(self.claiming, IsolatedClaiming):
            self.claiming.over = lambda: self.on_idle()
        elif suspects is Suspects.BETWEEN:
            self.claiming.in_place = InPlace(self.claimer, self._hands, self._completer, self._draining)
        self._completer.busy = lambda: self._hands.held + self._relaying.held > 0
        self._completer.vacate = self._hands.vacate = self._vacate
        self._completer.freed = self._freed
        self._runner: JobRunner
        self._traced: AttemptRunner
        self._lifespan = LifespanTask(served.lifespan, self._lifespan_failed)
        self._hand_tasks: list[asyncio.Task[None]] = []
        self._loops: list[asyncio.Task[None]] = []
        self._claim_loops: list[asyncio.Task[None]] = []
        self._watching: asyncio.Task[None] | None = None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called when a loop of the engine itself ends with an error; set by the owner of the engine."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when no suspect is left for an engine that runs nothing else; set by the owner of the engine."""

    async def start(self) -> None:
        """Check the server, register, and begin to claim."""
        mark_records()
        try:
            await self._enter()
        except Exception as error:
            if (refusal := self._database.refusal(error)) is not None:  # a missing right shows only after the login
                raise refusal from None
            raise
        self.ledger.set_name(self.name)
        self._completer.start()
        self._traced = traced(self._runner, self._tracing)
        for _ in range(self.settings.concurrency):
            self._add_hand()
        loops = [self.claiming.along_lanes, self.claiming.through_keys] if self._queues else []
        self._claim_loops = [self._run_loop(loop) for loop in (*loops, *self._relaying.claim_loops)]
        self._loops += [*self._claim_loops, *map(self._run_loop, self._relaying.relay_loops)]
        self._loops.append(self._run_loop(self._unanswered.run))
        self._consuming.start(self._loop_ended)
        self._watching = self._run_loop(self._watch)
        isolation = self._suspects is Suspects.ONLY
        self.occurrences.worker_started(
            self.name, [*self._queues, *self._relaying.queues], self.settings.concurrency, isolation
        )

    def _add_hand(self) -> None:
        name = f"holdfast hand {len(self._hand_tasks)}"
        hand = asyncio.create_task(self._hands.work(self._traced), name=name)
        hand.add_done_callback(self._loop_ended)
        self._hand_tasks.append(hand)

    def _hire(self) -> bool:
        """One more hand, if another waits for the database and has lent its permit."""
        hands, usual = len(self._hand_tasks), self.settings.concurrency
        if self._draining.is_set() or not usual <= hands < usual + min(self._hands.lent, RELIEF):
            return False
        self._add_hand()
        return True

    def _run_loop(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(loop(), name=f"holdfast {loop.__name__}")
        task.add_done_callback(self._loop_ended)
        return task

    async def _enter(self) -> None:
        connection = await self._database.connect("start")
        try:
            await check_server(connection)
            await migrate.check(connection, self._database.schema)
        finally:
            await connection.close()
        state = await self._lifespan.enter()
        self._runner = JobRunner(
            self._database, self._definitions, self.settings, self.occurrences, self._import_path, state,
            records=self._records,
        )  # fmt: skip
        try:
            await self._runner.start()
            await declare(self._write_link, map(declared, self._definitions.values()))
            await self._relaying.declare(self._write_link)
            await members.register(self._write_link, self.name, self.metadata())  # and connect it, before it is needed
        except BaseException:
            await self._runner.close()
            await self._lifespan.leave()
            await self._write_link.close()
            raise

    def metadata(self) -> dict[str, Any]:
        isolation = self._suspects is Suspects.ONLY
        return {
            "version": __version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": []
            if isolation
            else [*self._queues, *self._relaying.queues],  # it owns no buckets, is never woken
            "kinds": {
                **{kind: [d.oldest, d.version] for kind, d in self._definitions.items()},
                **({KIND: [1, 1]} if self._relaying.routes else {}),
            },
            "concurrency": 1 if isolation else self.settings.concurrency,
            "lease": self.settings.lease,
            "isolation": isolation,
            "time_zones": zones.release(),
        }

    def register_again(self) -> None:
        """Register again: the registry does not know this worker."""
        if not self._draining.is_set():
            task = asyncio.create_task(self._register_again(), name="holdfast register")
            task.add_done_callback(self._loops.remove)
            self._loops.append(task)

    async def _register_again(self) -> None:
        try:
            await members.register(self._write_link, self.name, self.metadata())
        except Exception as error:
            self.occurrences.registration_failed(self.name, "alive", error)

    def drain(self) -> None:
        """Stop claiming, and hand back what has not started. `stop` does the rest."""
        if not self._draining.is_set():
            self.occurrences.drain_began(self.name)
        self._draining.set()
        self.claiming.drain()
        self._relaying.drain()
        self._consuming.drain()

    def wake(self, post: int = 0) -> None:
        """Look for work now, or once more if it is just looking; `post`: of the jobs, or of a route."""
        if post:
            self._relaying.wake(post)
        else:
            self.claiming.woken.set()

    def _wake_all(self) -> None:
        for post in range(len(self._relaying.routes) + 1):
            self.wake(post)

    def set_stir(self, stir: Callable[[], None]) -> None:
        """Set how to tell the listener that the ledger has changed."""
        self.claiming.stir = stir
        self._relaying.set_stir(stir)

    def _vacate(self, claim: Claim) -> None:
        if not self._relaying.vacate(claim):
            self.claiming.vacate(claim)

    def _freed(self) -> None:
        self._hands.demand.set()
        self._relaying.freed()

    def read_notices(self) -> None:
        """Act on the notices that the keeper has left in the ledger."""
        self._hands.read_notices()

    @property
    def handlers_left(self) -> bool:
        """Do handlers still run after `stop`? They are in threads, which only end with the process."""
        return self._hands.running > 0

    async def stop(self, within: float | None = None) -> None:
        """Drain: hand back what has not started, let handlers finish, write every ending. `leave` comes next."""
        self.drain()
        if not self._loops:
            return  # it never started
        probe("drain.before")
        await self._say("draining")
        await self._end_claiming()
        await self._consuming.stop()
        self._hands.hand_back_ready()
        deadline = time.monotonic() + (self.settings.drain if within is None else within)
        while self._hands.running and time.monotonic() < deadline:
            await self.claiming.give_away_vacated()
            await asyncio.sleep(0.01)
        await self._relaying.settle(deadline)
        await self._hands.stop_running()
        for task in [*self._hand_tasks, *self._loops]:
            task.cancel()
        await asyncio.gather(*self._hand_tasks, *self._loops, return_exceptions=True)
        if not await self._completer.close(within=10):
            self.occurrences.endings_unwritten(self._completer.backlog)
        await self._runner.close()
        await self._records.close()
        await self._hand_back_unknown()
        await self.claiming.give_away_vacated()
        await self._relaying.give_away_vacated()
        await self._relaying.close()
        await self._lifespan.leave()
        if self._watching is not None:  # last: it shows the keeper that this loop runs
            self._watching.cancel()
        self._publish(now=True)

    async def leave(self) -> None:
        """Leave the registry; after `stop`, and best after the last heartbeat, which would mark it as alive again."""
        await self._say("dead")
        for link in (self._claim_link, self._write_link, self._key_link):
            await link.close()
        self.occurrences.worker_stopped(self.name, self.tally.counters.completed)

    async def stop_now(self) -> None:
        """As `stop`, without waiting for running handlers."""
        await self.stop(within=0)

    async def _end_claiming(self) -> None:
        """Wait for a claim that is in progress: it may have committed, and its rows must be known to be handed back."""
        try:
            async with asyncio.timeout(5):
                await asyncio.wait(self._claim_loops)
        except TimeoutError:
            for loop in self._claim_loops:
                loop.cancel()

    async def _hand_back_unknown(self) -> None:
        """Hand back rows of a claim whose answer was lost; nothing runs any more, so none of them has started."""
        if not self._hands.running:
            with suppress(Unreachable, Contended, TimeoutError):
                async with asyncio.timeout(5):
                    await ending.hand_back_all(self._write_link, self.name)

    async def _say(self, status: str) -> None:
        try:
            await members.leave(self._write_link, self.name, status, self.ledger.counters())
        except (Unreachable, Contended) as error:
            self.occurrences.registration_failed(self.name, status, error)

    async def _watch(self) -> None:
        while True:
            self.ledger.pulse()
            await asyncio.sleep(WATCH_EVERY)
            self._hands.watch()
            self._publish()

    def _publish(self, now: bool = False) -> None:
        """Let the keeper see the counters, and now and then the numbers."""
        counters = self.tally.counters
        counters.running = max(0, self._hands.running - self._hands.lent)  # one that was stopped may still have lent
        counters.ready = self._hands.ready
        counters.rescans, counters.ring = self.claimer.rescans, self.claiming.shares.digest
        self.tally.publish(self.ledger)
        if now or time.monotonic() - self._published_at > PUBLISH_EVERY:
            self._published_at = time.monotonic()
            self._counting.publish()

    def _lifespan_failed(self, error: BaseException) -> None:
        self.occurrences.lifespan_failed(self.name, error)
        self.on_failure(error)

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            assert error is not None
            self.occurrences.worker_failed(self.name, error)
            self.on_failure(error)


def declared(definition: Definition) -> Declared:
    """What a worker stores of a task."""
    return Declared(
        kind=definition.kind,
        version=definition.version,
        app=definition.app,
        arguments=definition.arguments.types,
        retry=definition.retry.numbers if definition.retry is not None else None,
        max_snoozes=definition.max_snoozes,
        keep=definition.keep,
        workflow=definition.runs is Runs.AS_FLOW,
    )
