"""The keeper: renews leases, sends heartbeats, listens for wake-ups, does the housekeeping, and fires schedules.

It runs outside the handlers' process (in the supervisor) or at least outside their event loop (in a thread), on
separate connections. It beats into every ledger, also while the server is away. A worker that sees no beat for a while
stops claiming, and treats rows that were not renewed for a whole lease as lost.

    server is away      for everyone, and nothing is swept as soon as it is back: running jobs go on
    server is silent    perhaps only we are cut off, and others take over: running jobs are lost after a lease
    server rejects us   the same: our role may not write, or not connect, or runs into a timeout

A pooler may hold back the first calls of an outage, and reject the rest. So no call waits for long.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from ...db.database import Database
from ...db.link import Link
from ...errors import Contended, Unreachable
from ...housekeeping.loop import Housekeeper
from ...inbox import ending, renew
from ...inbox.claim import Known
from ...model.availability import Availability
from ...model.job import Hold
from ...model.occurrences import Occurrences, Part
from ...ownership import members
from ...schedules.declared import Declared
from ...schedules.firing import Scheduler
from ..numbers.books import Books, Minutes
from ..settings import WorkerSettings
from ..unknown import UnknownKinds
from ..waking.listener import Listener
from . import ledger as marks
from .ledger import Held, Ledger

if TYPE_CHECKING:
    from ..numbers.exporting import Exporter

log = logging.getLogger("holdfast.keeper")

BATCH = 1000
BLOCKED = 2.0
"""Seconds without a pulse of its event loop after which a worker counts as blocked, and its rows are recalled."""
ABSENT = 5.0
"""Seconds after which it does not count as live, so that others get its buckets; a stopped one after BLOCKED."""
SETTLING = 0.01
"""Seconds within which a worker that is just starting a row has marked it as started."""


class Kept(msgspec.Struct, eq=False):
    """A worker as its keeper knows it."""

    ledger: Ledger
    read_notices: Callable[[], None]
    """Tell it to read the notices in its ledger."""
    wake: Callable[[int], None] = lambda post: None
    """Tell it to look for work at one of its posts."""
    stopped: Callable[[], bool] = lambda: False
    """Is its process suspended? Then its leases are not renewed."""
    overdue: Callable[[Held], None] = lambda row: None
    """A handler is over its timeout and did not stop."""
    drain: Callable[[], None] = lambda: None
    """Tell it to drain, as the registry asks."""
    register: Callable[[], None] = lambda: None
    """Tell it to register again: its entry was deleted by hand, or is missing in a restored backup."""
    recalled: int = 0
    """When its rows were last recalled; 0: not since its loop last ran."""


Batch = tuple[Kept, Sequence[Held]]
"""Rows of one worker that are renewed together."""


def _size(due: Sequence[Batch]) -> int:
    return sum(len(rows) for _, rows in due)


class Keeper:
    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        posts: Sequence[Sequence[str]],
        occurrences: Occurrences,
        schedules: Sequence[Declared] = (),
        known: Known | None = None,
        books: Books | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        """`posts`: the queues of each claim loop; those of the jobs are first. `listening`: to serve metrics there."""
        self._occurrences = occurrences
        self._availability = Availability(Part.LEASES, occurrences)
        self._settings = settings
        self._queues = [queue for queues in posts for queue in queues]
        self._link = Link(database, "keeper", deadline=settings.patience)
        self._house = Housekeeper(
            database, settings.housekeeping, settings.renew_every, idle=settings.patience, occurrences=occurrences
        )
        self._scheduler = Scheduler(database, schedules, occurrences, settings.deadline)
        self._unknown = UnknownKinds(database, posts[0], known, occurrences, settings.deadline) if known else None
        self._beat_at = 0
        self._news = True
        """Is a heartbeat needed before the next one is due?"""
        self._absent: set[str] = set()
        self._reported_absent: set[str] = set()
        self.workers: list[Kept] = []
        hears = settings.notify and not database.pooler
        self.listener = Listener(database, posts, self.workers, self._hear_news, occurrences) if hears else None
        self.renewed = 0
        self.draining = False
        """Set by the owner of the keeper: nothing more is claimed."""
        self._had_workers = False
        self._books = books or Books()
        self._minutes = Minutes(database, self._books, settings.minute, settings.deadline)
        self._exporter = self._make_exporter(listening, database) if listening is not None else None

    def _make_exporter(self, listening: socket.socket, database: Database) -> Exporter:
        from ..numbers.exporting import Exporter  # workers without it do not need its modules

        return Exporter(listening, self._books, database, self.unready)

    def unready(self) -> list[str]:
        """Why no job can be run here now; empty: there is no reason."""
        problems = []
        if self.draining:
            problems.append("draining: nothing more is claimed")
        elif not any(kept.ledger.name for kept in self.workers):
            problems.append("no worker process has registered yet")
        elif all(kept.ledger.silence > BLOCKED or kept.stopped() for kept in self.workers if kept.ledger.name):
            problems.append("the event loop of every worker process is blocked, or the process is stopped")
        if self._availability.failures:
            problems.append("the server cannot be reached")
        return problems

    async def run(self) -> None:
        """Run until cancelled."""
        beside = [
            asyncio.create_task(work(), name=f"holdfast {work.__name__}")
            for work in (
                self._keep_house, self._beat, self._listen, self._fire_schedules, self._name_unknown_kinds,
                self._note_minutes, self._serve_metrics,
            )
        ]  # fmt: skip
        try:
            while True:
                try:
                    await self.round()
                except Exception:
                    log.exception("a round of the keeper failed; trying again")
                await asyncio.sleep(self._tick)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if self._had_workers:
                await self._minutes.finish()
            await self._link.close()

    @property
    def _tick(self) -> float:
        return min(1.0, self._settings.lease / 12)

    async def _beat(self) -> None:
        """Beat into the ledgers; apart from the rounds, which a silent link can hold up."""
        while True:
            for kept in self.workers:
                kept.ledger.set_beat(marks.now())
            await asyncio.sleep(self._tick)

    async def _keep_house(self) -> None:
        await self._worker_ready()
        await self._house.run()

    async def _fire_schedules(self) -> None:
        await self._worker_ready()
        await self._scheduler.run()

    async def _listen(self) -> None:
        await self._worker_ready()
        if self.listener is not None:
            await self.listener.run()

    async def _name_unknown_kinds(self) -> None:
        await self._worker_ready()
        if self._unknown is not None:
            await self._unknown.run()

    async def _note_minutes(self) -> None:
        await self._worker_ready()
        self._had_workers = True
        await self._minutes.run()

    async def _serve_metrics(self) -> None:
        if self._exporter is not None:
            await self._exporter.run()

    async def _worker_ready(self) -> None:
        """Wait for the first worker: it checks the server and its schema."""
        while not any(kept.ledger.name for kept in self.workers):
            await asyncio.sleep(min(0.1, self._tick))

    def stir(self) -> None:
        """Look at the ledgers now: a worker falls asleep or has no room, and producers should see it soon."""
        if self.listener is not None:
            self.listener.stir()

    def _hear_news(self) -> None:
        """Send a heartbeat with the next round: the registry has changed, or there is something to write."""
        self._news = True

    async def round(self) -> None:
        """Renew what is due, pass on cancellations, and send heartbeats."""
        now = marks.now()
        held = [(kept, list(kept.ledger.held())) for kept in self.workers]
        due = [batch for kept, rows in held for batch in self._due(kept, rows, now)]
        try:
            while due:
                await self._renew(*due[0])
                del due[0]
            for kept in self.workers:
                await self._recall_if_blocked(kept)
            if any(rows for _, rows in held):
                await self._pass_cancellations()
            absent = {kept.ledger.name for kept in self.workers if _is_absent(kept)}
            if absent != self._absent:
                self._absent, self._news = absent, True
            # A round early rather than late: a drain must be noticed within one interval.
            beat = self._news or now - self._beat_at > (self._settings.heartbeat - self._tick) * 1e9
            if beat:
                self._news = False
                self._beat_at = now
                await self._heartbeat()
            if beat or any(rows for _, rows in held):  # the server was asked
                self._availability.succeeded()
        except Contended as error:
            log.debug("keeper: %s", error)
            self._news = True
        except Unreachable as error:
            self._outlast(error, due)
            self._news = True

    def _due(self, kept: Kept, rows: Sequence[Held], now: int) -> list[Batch]:
        """The rows to renew now, in batches."""
        if kept.stopped():
            return []
        due = []
        for row in rows:
            if row.recalled:
                continue
            if row.stage == marks.RUNNING and row.kill_at and row.kill_at < now:
                kept.overdue(row)
            elif now - row.renewed > self._settings.lease * 1e9:
                # Not renewed for a whole lease: we or the worker were stopped, or cut off. Late is lost.
                self._lose(kept, row)
            elif now - row.renewed > self._settings.renew_every * 1e9:
                due.append(row)
        return [(kept, due[start : start + BATCH]) for start in range(0, len(due), BATCH)]

    async def _renew(self, kept: Kept, rows: Sequence[Held]) -> None:
        sent = marks.now()
        try:
            holds = [Hold(kept.ledger.name, row.id, row.generation) for row in rows]
            result = await renew.renew(self._link, holds, self._settings.lease)
        except Contended as error:
            self._put_off([(kept, rows)], error)
            return
        self.renewed += len(result.renewed)
        self._occurrences.renewed(kept.ledger.name, len(result.renewed))
        for row in rows:
            if row.id in result.renewed:
                kept.ledger.renewed(row, sent)
            elif row.id in result.lost:
                self._lose(kept, row)

    def _outlast(self, error: Unreachable, due: Sequence[Batch]) -> None:
        """Handle an outage. If the server is away for everyone, holders may go on with their rows."""
        if error.cut_off or not due:
            self._availability.failed(error, rows=_size(due))
        else:
            self._put_off(due, error)

    def _put_off(self, due: Sequence[Batch], error: Exception) -> None:
        """Count these rows as renewed a moment ago, so that they are not lost, but are due again at once."""
        self._availability.failed(error, rows=_size(due))
        at = marks.now() - int(self._settings.renew_every * 1e9)
        for kept, rows in due:
            for row in rows:
                kept.ledger.renewed(row, at)

    def _lose(self, kept: Kept, row: Held) -> None:
        if kept.ledger.notice(row, marks.LOST):
            self._occurrences.lease_lost(Hold(kept.ledger.name, row.id, row.generation))
            kept.read_notices()

    async def _recall_if_blocked(self, kept: Kept) -> None:
        """Hand back what a worker has claimed and not started, if its event loop does not run, and wake others.

        This includes rows that only the server knows about: the answer to their claim waits for the loop. The server is
        asked before the recall is noted. A claim that is sent later, by a loop that runs again, is not recalled.
        """
        if kept.ledger.silence < BLOCKED:
            kept.recalled = 0
        elif marks.now() - kept.recalled > self._settings.renew_every * 1e9:
            claimed = await ending.claimed_by(self._link, kept.ledger.name)
            kept.ledger.recall()
            for row in kept.ledger.held():
                if row.stage == marks.HELD:
                    kept.ledger.notice(row, marks.RECALLED)
            await asyncio.sleep(SETTLING)
            started = {row.id for row in kept.ledger.held() if row.stage != marks.HELD}
            back = await ending.hand_back(self._link, (hold for hold in claimed if hold.id not in started))
            # Also if there is none: it may have been woken for jobs, and stopped before it claimed them.
            await self._link.run("worker/waking", "call", self._queues)
            kept.recalled = marks.now()  # only now: what failed half-way is done again in the next round
            self._occurrences.recalled(kept.ledger.name, back, kept.stopped())

    async def _pass_cancellations(self) -> None:
        asked = await renew.cancelled(self._link, [kept.ledger.name for kept in self.workers])
        for kept in self.workers if asked else ():
            for row in kept.ledger.held():
                hold = Hold(kept.ledger.name, row.id, row.generation)
                if hold in asked and kept.ledger.notice(row, marks.CANCELLED):
                    kept.read_notices()

    async def _heartbeat(self) -> None:
        listening = self.listener is not None and self.listener.listening
        named = [kept for kept in self.workers if kept.ledger.name]
        away = [kept.ledger.name for kept in named if _is_absent(kept)]
        if away:
            for name in await members.absent(self._link, away):
                self._reported_absent.add(name)
                self._occurrences.absent(name)
        counters = {
            kept.ledger.name: {**kept.ledger.counters(), "listening": listening}
            for kept in named
            if kept.ledger.name not in away
        }
        if not counters:
            return
        statuses = await members.heartbeat(self._link, counters)
        self._occurrences.heartbeat(counters)
        self._note_present(counters.keys())
        for kept in self.workers:
            if kept.ledger.name not in counters:
                continue
            match statuses.get(kept.ledger.name):
                case "draining":
                    kept.drain()
                case None:
                    self._occurrences.unregistered(kept.ledger.name)
                    kept.register()

    def _note_present(self, workers: Collection[str]) -> None:
        for name in self._reported_absent.intersection(workers):
            self._occurrences.present(name)
        self._reported_absent &= {kept.ledger.name for kept in self.workers}.difference(workers)


def _is_absent(kept: Kept) -> bool:
    silence = kept.ledger.silence
    return silence > ABSENT or (silence > BLOCKED and kept.stopped())
