"""A worker inside an application: the engine on the application's loop, the keeper in a separate thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ..journal.notes import Notes
from ..journal.recorder import Recorder
from ..journal.writing import Writer
from ..metrics.address import listen
from ..model.job import Hold
from ..model.occurrences import Occurrences
from ..ownership import members
from .engine import Engine
from .leases.keeper import Keeper, Kept
from .leases.ledger import Held, Ledger
from .lifespan import LifespanFailed
from .log_lines import LogLines
from .numbers.books import Books
from .served import Served
from .settings import WorkerSettings

KEEPER_ENDS = 10.0
"""Seconds to wait until the keeper has closed its connections."""


class EmbeddedWorker:
    """A worker inside this process: see `Holdfast.worker`.

    ```python
    async with hf.worker() as worker:
        print(worker.name)
    ```
    """

    def __init__(self, served: Served, settings: WorkerSettings) -> None:
        self._served = served
        self._settings = settings
        self._ledger = Ledger()
        self._thread: _KeeperThread | None = None
        self._ending: asyncio.Task[None] | None = None
        self._books = Books()
        self._books.open(self._ledger.board)
        self._notes = Notes()
        recorder = Recorder(self._notes)
        self._occurrences = Occurrences(self._books, LogLines(), recorder)
        """Of the keeper, in its thread."""
        self._listening: socket.socket | None = None
        self._warned: set[int] = set()
        self.engine = Engine(served, settings, self._ledger, members.new_name(), subscribers=[recorder])

    @property
    def name(self) -> str:
        """Its name in the registry: see `holdfast workers list`."""
        return self.engine.name

    async def start(self) -> None:
        """Start it; `async with hf.worker():` does this, and `stop`, by itself."""
        loop = asyncio.get_running_loop()
        if self._settings.metrics is not None:
            self._listening = listen(self._settings.metrics)
        try:
            await self.engine.start()
        except BaseException as error:
            if self._listening is not None:
                self._listening.close()
            if isinstance(error, LifespanFailed):
                raise error.error from None
            raise
        kept = Kept(
            self._ledger,
            read_notices=lambda: _later(loop, self.engine.read_notices),
            wake=lambda post: _later(loop, lambda: self.engine.wake(post)),
            overdue=self._overdue,
            drain=lambda: _later(loop, self.engine.drain),
            register=lambda: _later(loop, self.engine.register_again),
        )
        self._thread = _KeeperThread(
            self._served, self._settings, kept, self._occurrences, self._books, self._listening, self._writer()
        )
        self.engine.set_stir(self._thread.stir)
        self._thread.start()

    async def stop(self) -> None:
        """Drain: let running jobs finish, and hand back the rest. If cancelled, stop now.

        If cancelled again, this continues in the background: the keeper must end, or it would keep this worker alive in
        the registry.
        """
        if self._thread is not None:
            self._thread.draining()
        try:
            await self.engine.stop()
        except BaseException:
            await self._in_background(self._end(now=True))
            raise
        await self._in_background(self._end())

    async def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._ending = asyncio.create_task(work, name="holdfast end")
        await asyncio.shield(self._ending)

    async def _end(self, now: bool = False) -> None:
        try:
            if now:
                await self.engine.stop_now()
        finally:
            if self._thread is not None:
                self._thread.cancel()
                await asyncio.to_thread(self._thread.join, KEEPER_ENDS)
            await self.engine.leave()
            await self._writer().close()

    def _writer(self) -> Writer:
        return Writer(self._served.database, self._notes, self._settings.deadline)

    def _overdue(self, row: Held) -> None:
        """Report it once. The process is the application's and cannot be killed; the lease is no longer renewed."""
        if row.slot not in self._warned:
            self._warned.add(row.slot)
            self._occurrences.overdue(Hold(self.name, row.id, row.generation), None)


def _later(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(call)


class _KeeperThread(threading.Thread):
    def __init__(
        self,
        served: Served,
        settings: WorkerSettings,
        kept: Kept,
        occurrences: Occurrences,
        books: Books,
        listening: socket.socket | None,
        journal: Writer,
    ) -> None:
        super().__init__(name="holdfast keeper", daemon=True)
        self._served = served
        self._settings = settings
        self._kept = kept
        self._occurrences = occurrences
        self._books = books
        self._listening = listening
        self._journal = journal
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None

        self._keeper: Keeper | None = None

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        served = self._served
        keeper = Keeper(
            served.database, self._settings, served.posts, self._occurrences, served.schedules, served.known,
            self._books, self._listening,
        )  # fmt: skip
        self._keeper = keeper
        keeper.workers.append(self._kept)
        self._task = self._loop.create_task(keeper.run())
        writing = self._loop.create_task(self._journal.run())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            writing.cancel()
            self._loop.run_until_complete(asyncio.gather(writing, return_exceptions=True))
            self._loop.close()

    def draining(self) -> None:
        """Note that nothing more is claimed; from any thread."""
        if self._keeper is not None:
            self._keeper.draining = True

    def stir(self) -> None:
        """Wake the listener; called from the application's thread."""
        if self._keeper is not None:
            with suppress(RuntimeError):  # its loop has been closed
                self._loop.call_soon_threadsafe(self._keeper.stir)

    def cancel(self) -> None:
        """Ask the thread to end. From any thread, and without waiting."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
