"""The processes in which a worker runs handlers that asked for one (`process=True`).

Each runs one attempt at a time. One is started with the worker, so that an application that it cannot load is rejected
then; the others when attempts wait, one per core at a time and no more than there are hands. The first free one takes
the next attempt. A process that idles for a minute ends, except the last one. One that idles leaves `lifespan_sync`
before it is killed.

    handler over its timeout, cancelled, or its lease lost    told, if it takes a context; killed half a second later
    worker drains and cannot wait any longer                  killed, its row handed back
    process dies                                              this attempt has failed; no other is affected
    worker dies                                               its processes end with it
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable

from ...context import Desk
from ...db.link import backoff
from ...definitions import Definition, Runs
from ...errors import Cancelled, ConfigurationError, LeaseLost, Timeout
from ...model.job import Claim
from ...model.occurrences import Occurrences
from ...model.outcome import Outcome
from ..attempts.deciding import PUT_OFF, Around, Unstarted, expiry, process_gone, unstarted
from ..exit_codes import is_shortage
from ..leases import ledger as marks
from .process import PROGRAM, HandlerProcess, NotStarted, ProcessDied, Refused

START = 60.0
"""Seconds that a process may take to load the application."""
GIVE_IN = 0.5
"""Seconds that a handler has to stop after it was told to."""
IDLE = 60.0
"""Seconds without work after which a process ends."""
PAUSE = 5.0
"""Factor on the usual backoff, before the first process is started again."""
LOOK_EVERY = 1.0
CORES = os.cpu_count() or 1


class HandlerProcesses:
    def __init__(
        self,
        import_path: str,
        definitions: Iterable[Definition],
        desk: Desk,
        occurrences: Occurrences,
        imports: Iterable[str] = (),
    ) -> None:
        self._occurrences = occurrences
        self._import_path = import_path
        self._imports = list(imports)
        chosen = [definition for definition in definitions if definition.runs is Runs.IN_PROCESS]
        self._kinds = {definition.kind for definition in chosen}
        modules = {getattr(definition.function, "__module__", None) for definition in chosen}
        self._modules = sorted(name for name in modules if name and name != "__main__")
        self._desk = desk
        self._all: set[HandlerProcess] = set()
        """Every process that is not gone yet."""
        self._idle: list[HandlerProcess] = []
        self._waiting: deque[asyncio.Future[HandlerProcess]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the first process. Raises if it cannot load the application; retries after any other failure."""
        if _is_one():
            raise ConfigurationError(
                "process=True: importing this application starts a worker, in each of the worker's processes again; "
                "start it under if __name__ == '__main__':"
            )
        self._idle.append(await self._start_first())
        self._look()

    async def _start_first(self) -> HandlerProcess:
        failures = 0
        while True:
            try:
                return await self._start()
            except (NotStarted, OSError) as error:
                if isinstance(error, Refused) or (isinstance(error, OSError) and not is_shortage(error)):
                    raise ConfigurationError(f"process=True: {error}") from None
                failures += 1
                self._occurrences.handler_process_failed(error)
            await asyncio.sleep(PAUSE * backoff(failures))

    async def run(
        self, claim: Claim, reason: Callable[[], Exception | None], told: bool, begins: Callable[[], None]
    ) -> Outcome | None:
        """Run an attempt; None if it stopped when told to. After a cancellation, the attempt or its process has ended.

        `reason` says why the hand was cancelled, `told` whether the handler can be told. `begins` is called when there
        is a process for it.
        """
        try:
            process = await self._usable()
        except (NotStarted, OSError) as error:
            self._occurrences.not_started(claim, error, PUT_OFF)
            return unstarted(Unstarted.NO_PROCESS)
        if (why := expiry(claim, marks.now())) is not None:  # it may have waited for its process
            self._put_back(process)
            return unstarted(why)
        ending = process.begin(claim)
        begins()
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            stop = reason()
            if told and isinstance(stop, (LeaseLost, Cancelled, Timeout)):
                process.tell(stop)
                await asyncio.wait([ending], timeout=GIVE_IN)
            if ending.done() and ending.exception() is None:
                return ending.result()
            await process.end()
            raise
        except ProcessDied:
            return process_gone(Around.APART, await process.cause())
        finally:
            self._put_back(process)

    async def _usable(self) -> HandlerProcess:
        while True:
            process = self._next() or await self._first_free()
            if process.usable:
                return process
            process.kill()  # it died since it was put back

    def _next(self) -> HandlerProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.usable and process.alive:
                return process
            process.kill()
        return None

    async def _first_free(self) -> HandlerProcess:
        place: asyncio.Future[HandlerProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._start_more()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._put_back(place.result())  # a process became free at the same moment
            raise

    def _start_more(self) -> None:
        if self._closed:
            while (place := self._next_place()) is not None:
                place.set_exception(NotStarted("the worker stops"))
        while len(self._starting) < min(CORES, sum(not place.done() for place in self._waiting)):
            task = asyncio.get_running_loop().create_task(self._add(), name="holdfast process")
            self._starting.add(task)
            task.add_done_callback(self._started)

    async def _add(self) -> None:
        try:
            self._put_back(await self._start())
        except Exception as error:
            if (place := self._next_place()) is not None:
                place.set_exception(error)

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled():
            self._start_more()

    def _next_place(self) -> asyncio.Future[HandlerProcess] | None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                return place
        return None

    def _put_back(self, process: HandlerProcess) -> None:
        if not process.usable:
            process.kill()
            self._start_more()
        elif (place := self._next_place()) is not None:
            place.set_result(process)
        else:
            process.idle_since = time.monotonic()
            self._idle.append(process)

    async def close(self) -> None:
        self._closed = True
        self._start_more()
        if self._looking is not None:
            self._looking.cancel()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        try:
            await asyncio.gather(*self._leaving, *(process.leave() for process in self._idle))
        finally:  # also if the worker is told to stop now
            for process in self._all:
                process.kill()
        for process in list(self._all):
            await process.end()
        self._all.clear()
        self._idle.clear()

    async def _start(self) -> HandlerProcess:
        process = HandlerProcess(self._import_path, self._imports, self._modules, self._desk)
        self._all.add(process)
        try:
            async with asyncio.timeout(START):
                await process.connect()
                kinds = await process.ready
            if missing := sorted(self._kinds - set(kinds)):
                raise Refused(
                    f"a process that imports {self._import_path} knows no task {missing[0]!r}; register it where "
                    f"importing {' or '.join(self._modules) or 'that module'} runs the decorator"
                )
        except ProcessDied:
            words = f"a process {await process.cause()} before it had loaded {self._import_path}"
            raise (NotStarted if process.may_pass else Refused)(words) from None
        except TimeoutError:
            process.kill()
            raise NotStarted(f"a process did not load {self._import_path} within {START:g} s") from None
        except BaseException:
            process.kill()
            raise
        return process

    def _look(self) -> None:
        """End processes that are not needed, and notice the end of one whose socket is still open elsewhere."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)
        now = time.monotonic()
        for process in self._idle[:-1]:  # the last one is used next, and stays
            if now - process.idle_since > IDLE:
                self._idle.remove(process)
                task = asyncio.get_running_loop().create_task(_retire(process), name="holdfast process leaves")
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
        for process in self._idle:
            if not process.usable:
                process.kill()
        self._idle = [process for process in self._idle if process.usable]
        for process in [process for process in self._all if not process.alive]:
            process.kill()
            self._all.remove(process)


async def _retire(process: HandlerProcess) -> None:
    try:
        await process.leave()
    finally:
        process.kill()


def _is_one() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == PROGRAM
