"""`holdfast worker`: a supervisor of one or more worker processes.

It renews their leases and sends their heartbeats, from a separate loop and connections. It notices at once when one
dies, hands its rows back and starts another. It kills one whose handler does not stop, and drains them all on SIGTERM
or Ctrl-C; a second one stops them now. What had started in a process that died runs in isolation next (isolation.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import UUID

import msgspec

from ..db.link import Link, backoff
from ..errors import Contended, Unreachable
from ..inbox import ending, sessions
from ..inbox.ending import Ending
from ..journal.notes import Notes
from ..journal.recorder import Recorder
from ..journal.writing import Writer
from ..metrics.address import listen
from ..model.availability import Availability
from ..model.job import Hold
from ..model.occurrences import Occurrences, Part, Swept
from ..model.outcome import AttemptFailed
from ..model.report import Report
from ..ownership import members
from ..worker.attempts.deciding import Around, process_gone
from ..worker.exit_codes import CONFIGURATION
from ..worker.leases import ledger as marks
from ..worker.leases.keeper import Keeper, Kept
from ..worker.leases.ledger import Held, Ledger
from ..worker.log_lines import LogLines
from ..worker.logs import chosen_format
from ..worker.numbers.books import Books
from ..worker.served import Served
from ..worker.settings import WorkerSettings
from ..worker.spawning import Process
from .isolation import End, Isolation
from .start import WAKE, Start

QUICK = 5.0
"""Seconds: a process that ends sooner is restarted after a growing pause."""
OVERTIME = 15.0
"""Seconds beyond the drain time after which a process that does not end is killed."""


class Supervisor:
    def __init__(self, served: Served, settings: WorkerSettings, processes: int, log_level: str) -> None:
        assert served.import_path is not None, "worker processes need the path of the application"
        self._import_path = served.import_path
        self._settings = settings
        self._log_level = log_level
        notes = Notes()
        self._journal = Writer(served.database, notes, settings.deadline)
        self._books = Books()
        self._occurrences = occurrences = Occurrences(self._books, LogLines(), Recorder(notes))
        listening = listen(settings.metrics) if settings.metrics is not None else None
        self._keeper = Keeper(
            served.database, settings, served.posts, occurrences, served.schedules, served.known, self._books, listening
        )
        self._link = Link(served.database, "supervisor", deadline=settings.deadline)
        self._places = [WorkerPlace(self) for _ in range(processes)]
        self._isolation = Isolation(
            lambda: WorkerPlace(self, isolation=True), self._places, settings.concurrency, occurrences
        )
        self._draining = False
        self._served = False
        """Has any process ever been ready? Then a failure to start is a temporary problem of the server."""

    async def run(self) -> int:
        """Run until drained; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        keeping = asyncio.create_task(self._keeper.run(), name="holdfast keeper")
        isolating = asyncio.create_task(self._isolation.run(), name="holdfast isolation")
        writing = asyncio.create_task(self._journal.run(), name="holdfast journal")
        try:
            codes = await asyncio.gather(*(place.run() for place in self._places))
            return max(*codes, await self._isolation.ended())
        finally:
            isolating.cancel()
            keeping.cancel()  # last: running handlers keep their leases until they have ended
            writing.cancel()
            await asyncio.gather(isolating, keeping, writing, return_exceptions=True)
            await self._link.close()
            await self._journal.close()

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if not self._draining:
            self._occurrences.stop_requested(name)
            self._draining = self._keeper.draining = True
            for place in self._places:
                place.drain()
        else:
            running = self._isolation.running + sum(place.running for place in self._places)
            self._occurrences.stop_forced(name, running, OVERTIME)
            for place in self._places:
                place.stop_now()
            self._isolation.stop_now()


class WorkerPlace:
    """A place for one worker process: restarted whenever it ends (`run`), or started once (`live`)."""

    def __init__(self, supervisor: Supervisor, isolation: bool = False) -> None:
        self._supervisor = supervisor
        self._occurrences = supervisor._occurrences
        self._isolation = isolation
        self._ledger: Ledger | None = None
        self._process: Process | None = None
        self._pipe = -1
        self._bell = -1
        self._draining = False
        self._culprit: Held | None = None
        self._pause: asyncio.Event = asyncio.Event()

    async def run(self) -> int:
        quick = 0
        while True:
            began = time.monotonic()
            try:
                code = (await self.live()).code
            except OSError as error:
                self._occurrences.process_not_started(False, error)
                code = 1
            if self._over:
                # Ended by a SIGTERM to the group before it could handle it: it held nothing yet.
                return 0 if code in (0, -signal.SIGTERM) else 1
            if code == CONFIGURATION and not self._supervisor._served:
                return CONFIGURATION
            quick = quick + 1 if time.monotonic() - began < QUICK else 0
            if quick and await self._drained_within(backoff(quick) * 5):
                return 0

    @property
    def _over(self) -> bool:
        return self._draining or self._supervisor._draining

    @property
    def suspects(self) -> bool:
        """Does its process report that suspects wait which it does not take?"""
        return self._ledger is not None and self._ledger.suspects

    @property
    def engaged(self) -> bool:
        """Does its process hold rows, or is it stopped?"""
        ledger, process = self._ledger, self._process
        return ledger is not None and process is not None and (any(ledger.held()) or _is_stopped(process.pid))

    @property
    def running(self) -> int:
        """How many handlers run in its process."""
        return sum(row.stage == marks.RUNNING for row in self._ledger.held()) if self._ledger is not None else 0

    def forget_suspects(self) -> None:
        """Reset `suspects`, until it reports them again."""
        if self._ledger is not None:
            self._ledger.set_suspects(False)

    async def live(self) -> End:
        """Start a process, keep it until it ends, and recover its rows. OSError: it cannot be started."""
        self._culprit = None
        ledger, process = self._start()
        self._occurrences.process_started(process.pid, self._isolation)
        self._ledger = ledger
        kept = Kept(
            ledger,
            read_notices=lambda: self._send(b"s"),
            wake=lambda post: self._send(bytes([WAKE + post])),
            stopped=lambda: _is_stopped(process.pid),
            overdue=self._end_overdue,
            drain=self.drain,
            register=lambda: self._send(b"r"),
        )
        self._supervisor._books.open(ledger.board)
        self._supervisor._keeper.workers.append(kept)
        watch = asyncio.create_task(self._note_ready(ledger, process.pid))
        code = await process.wait()
        watch.cancel()
        self._supervisor._keeper.workers.remove(kept)
        self._supervisor._books.close(ledger.board)
        self._close_pipes()
        self._ledger = None
        self._supervisor._served |= bool(ledger.name)  # also if it died before `_note_ready` looked
        if code == 0 and not any(ledger.held()):
            self._occurrences.process_ended(process.pid, ledger.name, self._isolation)
            await self._leave(ledger.name)
        else:
            await self._recover(ledger, process.pid, code)
        worked = ledger.counters()["started"] > 0 or any(row.stage != marks.HELD for row in ledger.held())
        ledger.close()
        return End(code, worked)

    def _start(self) -> tuple[Ledger, Process]:
        with ExitStack() as theirs, ExitStack() as failed:
            theirs.callback(os.close, ledger_fd := Ledger.new_file())
            ledger = Ledger(ledger_fd)
            ledger.set_beat(marks.now())
            failed.callback(self._close_pipes)
            reader, self._pipe = os.pipe()
            theirs.callback(os.close, reader)
            self._bell, bell = os.pipe()
            theirs.callback(os.close, bell)
            for fd in (self._pipe, self._bell):
                os.set_blocking(fd, False)
            process = self._process = self._spawn(ledger_fd, reader, bell)
            failed.pop_all()
        asyncio.get_running_loop().add_reader(self._bell, self._hear_bell)
        if self._over:
            self._send(b"d")
        return ledger, process

    def _spawn(self, ledger_fd: int, reader: int, bell: int) -> Process:
        supervisor = self._supervisor
        start = Start(
            app=supervisor._import_path,
            settings=msgspec.structs.asdict(supervisor._settings),
            ledger_fd=ledger_fd,
            pipe_fd=reader,
            bell_fd=bell,
            parent=os.getpid(),
            log_level=supervisor._log_level,
            log_format=chosen_format(),
            isolation=self._isolation,
        )
        environment = {**os.environ, "HOLDFAST_WORKER_PROCESS": msgspec.json.encode(start).decode()}
        said = ["isolation"] if self._isolation else []  # shown in process lists
        return Process("holdfast.processes.worker_process", said, environment, (ledger_fd, reader, bell))

    def _hear_bell(self) -> None:
        if os.read(self._bell, 4096):
            self._supervisor._keeper.stir()
        else:  # it is gone, or nearly
            asyncio.get_running_loop().remove_reader(self._bell)

    def _close_pipes(self) -> None:
        if self._bell >= 0:
            asyncio.get_running_loop().remove_reader(self._bell)
        for fd in (self._pipe, self._bell):
            if fd >= 0:
                os.close(fd)
        self._pipe = self._bell = -1

    async def _note_ready(self, ledger: Ledger, pid: int) -> None:
        while not ledger.name:
            await asyncio.sleep(0.05)
        self._supervisor._served = True
        self._occurrences.process_ready(pid, ledger.name, self._isolation)

    async def _drained_within(self, seconds: float) -> bool:
        """Pause before the next start. True if a drain ended the pause."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pause.wait()
        return self._pause.is_set()

    # Orders

    def drain(self) -> None:
        if not self._draining:
            self._draining = True
            self._pause.set()
            self._send(b"d")
            if all(place._draining for place in self._supervisor._places):
                self._supervisor._isolation.drain()
            limit = self._supervisor._settings.drain + OVERTIME
            asyncio.get_running_loop().call_later(limit, self.kill)

    def stop_now(self) -> None:
        self._send(b"n")
        asyncio.get_running_loop().call_later(OVERTIME, self.kill)

    def kill(self) -> None:
        if self._process is not None and self._process.alive:
            self._occurrences.process_killed(self._process.pid)
            self._process.kill()

    def _send(self, order: bytes) -> None:
        if self._pipe >= 0:
            with suppress(BrokenPipeError, BlockingIOError):
                os.write(self._pipe, order)

    def _end_overdue(self, row: Held) -> None:
        if self._culprit is None and self._process is not None and self._process.alive:
            name = self._ledger.name if self._ledger is not None else ""
            self._occurrences.overdue(Hold(name, row.id, row.generation), self._process.pid)
            self._culprit = row
            self._process.kill()

    # After its death

    async def _recover(self, ledger: Ledger, pid: int, code: int) -> None:
        """Hand back what the dead process held; an attempt that had started counts."""
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        endings: list[Ending[Hold]] = [
            (Hold(ledger.name, row.id, row.generation), process_gone(self._around(row, code), f"ended by {how}"))
            for row in ledger.held()
            if row.stage != marks.HELD
        ]
        failed = [outcome for _, outcome in endings if isinstance(outcome, AttemptFailed)]
        of_failed = [hold.id for hold, outcome in endings if isinstance(outcome, AttemptFailed)]
        self._occurrences.process_died(pid, ledger.name, how, len(failed), sum(1 for _ in ledger.held()))
        if not ledger.name:
            return None  # it was never ready, and holds nothing
        availability = Availability(Part.RECOVERY, self._occurrences)
        while True:
            try:
                await sessions.end(self._supervisor._link, [hold for hold, _ in endings])
                # Before they are written: what is asked afterwards could fail, and the report would be lost.
                names = await ending.names(self._supervisor._link, of_failed)
                report = await ending.write(self._supervisor._link, endings)
                self._occurrences.recovered(ledger.name, report)
                self._occurrences.died(_died(endings, report, names))
                if any(outcome.crashed for outcome in failed):
                    self._supervisor._isolation.ask()
                await ending.hand_back_all(self._supervisor._link, ledger.name)
                await members.leave(self._supervisor._link, ledger.name, "dead", ledger.counters())
                return availability.succeeded()
            except (Unreachable, Contended, OSError) as error:
                availability.failed(error, rows=len(endings))
                if self._supervisor._draining and availability.failures > 5:
                    return None  # their leases expire
                await asyncio.sleep(backoff(availability.failures))

    async def _leave(self, name: str) -> None:
        """Mark it as dead once more: a heartbeat that was in progress when it left may have marked it as alive."""
        if name:
            with suppress(Unreachable, Contended, OSError):
                await members.leave(self._supervisor._link, name, "dead")

    def _around(self, row: Held, code: int) -> Around:
        if self._over and code == 0:
            return Around.BESIDE
        if self._culprit is not None:
            mine = (row.id, row.generation) == (self._culprit.id, self._culprit.generation)
            return Around.OVERDUE if mine else Around.BESIDE
        return Around.ENDED if row.stage == marks.ENDED else Around.RUNNING


def _is_stopped(pid: int) -> bool:
    """Is the process suspended (SIGSTOP)? Then its leases must not be renewed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


def _died(endings: Sequence[Ending[Hold]], report: Report[Hold], names: Mapping[UUID, tuple[str, str]]) -> list[Swept]:
    """The attempts that ended with their process, unless another worker had them already."""
    dead, stopped = {hold.id for hold, _ in report.dead}, {hold.id for hold in report.stopped}
    lost = {hold.id for hold in report.lost}
    return [
        Swept(
            hold.id, hold.worker, hold.generation,
            "dead_letter" if hold.id in dead else "failed" if hold.id in stopped else "pending",
            *names.get(hold.id, ("", "")),
        )
        for hold, outcome in endings
        if isinstance(outcome, AttemptFailed) and hold.id not in lost
    ]  # fmt: skip
