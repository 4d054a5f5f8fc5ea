"""The worker process, as its supervisor starts it: `python -m holdfast.processes.worker_process`.

It reads orders from a pipe: `s` read your notices, `r` register again, `d` drain, `n` stop now; and WAKE plus the
number of a post: look for work there. When the pipe closes, the supervisor is gone and the process exits at once; on
Linux the kernel ensures this even when no Python code can run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import select
import signal
import sys
import threading
from contextlib import suppress

import msgspec

from ..db.link import backoff, translate
from ..errors import ConfigurationError, Unreachable
from ..loading import load_app, loop_factory, served
from ..model.availability import Availability
from ..model.occurrences import Part
from ..ownership import members
from ..worker.engine import Engine
from ..worker.exit_codes import CONFIGURATION, ORPHANED
from ..worker.leases.ledger import Ledger
from ..worker.lifespan import LifespanFailed
from ..worker.logs import log_to_stderr, print_by_line
from ..worker.parent_death import die_with
from ..worker.served import Served
from ..worker.settings import Suspects, WorkerSettings
from .start import WAKE, Start

log = logging.getLogger("holdfast.worker")


def main() -> int:
    start = msgspec.json.decode(os.environ.pop("HOLDFAST_WORKER_PROCESS").encode(), type=Start)
    die_with(start.parent)
    log_to_stderr(start.log_level, start.log_format)
    print_by_line()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor decides what Ctrl-C means
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    try:
        settings = msgspec.convert(start.settings, WorkerSettings)
        serves = served(load_app(start.app, settings.imports), settings.queues, start.app)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_Process(serves, settings, start).run())
    except ConfigurationError as error:
        log.error("%s", error, exc_info=error.error if isinstance(error, LifespanFailed) else None)
        return CONFIGURATION


GARBAGE = 20_000
"""New objects after which Python searches them for cycles."""


def _tune_garbage_collection() -> None:
    """Exclude what is loaded now, the program itself, from Python's search for cycles, and search less often: one claim
    makes thousands of objects, and none of them is in a cycle."""
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)


class _Process:
    def __init__(self, serves: Served, settings: WorkerSettings, start: Start) -> None:
        self._told = start
        self._failed: BaseException | None = None
        suspects = Suspects.ONLY if start.isolation else Suspects.LEFT
        self._engine = Engine(serves, settings, Ledger(start.ledger_fd), members.new_name(), suspects)
        self._engine.on_failure = self._on_failure
        self._engine.set_stir(self._ring)
        os.set_blocking(start.bell_fd, False)
        self._engine.on_idle = lambda: self._over.set()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._now = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        os.set_blocking(self._told.pipe_fd, False)
        loop.add_reader(self._told.pipe_fd, self._obey)
        threading.Thread(target=self._outlive, name="holdfast supervisor's pipe", daemon=True).start()
        await self._start_unless_over()
        _tune_garbage_collection()
        await self._over.wait()
        stop = asyncio.create_task(self._engine.stop())
        now = asyncio.create_task(self._now.wait())
        await asyncio.wait([stop, now], return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)
            await self._engine.stop_now()
        now.cancel()
        await self._engine.leave()
        code = 1 if self._failed is not None else 0
        if self._engine.handlers_left:
            logging.shutdown()
            os._exit(code)  # otherwise the interpreter would wait for their threads
        return code

    async def _start_unless_over(self) -> None:
        starting = asyncio.create_task(self._start())
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait([starting, over], return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if starting.done():
            starting.result()
        else:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)

    async def _start(self) -> None:
        availability = Availability(Part.START, self._engine.occurrences)
        while not self._over.is_set():
            try:
                await self._engine.start()
                return availability.succeeded()
            except Exception as error:
                if not isinstance(translated := translate(error), Unreachable):
                    raise
                availability.failed(translated)
                await asyncio.sleep(backoff(availability.failures))
        return None

    def _on_failure(self, error: BaseException) -> None:
        self._failed = error
        self._over.set()

    def _ring(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):  # it has not read the last one yet; or it is gone
            os.write(self._told.bell_fd, b".")

    def _obey(self) -> None:
        data = os.read(self._told.pipe_fd, 4096)
        if not data:
            os._exit(ORPHANED)
        if b"s" in data:
            self._engine.read_notices()
        if b"r" in data:
            self._engine.register_again()
        for post in {order - WAKE for order in data if order >= WAKE}:
            self._engine.wake(post)
        if b"d" in data or b"n" in data:
            self._over.set()
        if b"n" in data:
            self._now.set()

    def _outlive(self) -> None:
        """Exit with the supervisor, even while a handler blocks the loop."""
        poll = select.poll()
        poll.register(self._told.pipe_fd, 0)
        poll.poll()  # without an event mask, it only reports that the other end is closed
        os._exit(ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
