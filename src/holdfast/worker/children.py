"""The processes in which a worker runs handlers that asked for one (`process=True`).

Each runs one attempt at a time. One is started with the worker, so that an application that they cannot load is refused
then; the others when attempts wait, one per core at a time and no more than there are hands. Whichever is free first
takes the next attempt. What idles for a minute ends, but for one.

    handler over its time, cancelled, or its lease lost    told, if it takes a context; killed half a second later
    worker drains and cannot wait any longer               killed, its row handed back
    process dies                                           this attempt failed; no other is touched
    worker dies                                            its processes end with it
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

import msgspec

from ..context import Desk
from ..db.link import backoff
from ..definitions import Definition
from ..errors import Cancelled, ConfigurationError, LeaseLost, Timeout
from ..model.job import Claim
from ..model.outcome import Outcome
from . import talk
from .deciding import PUT_OFF, Around, OnceBusy, Unstarted, process_gone, unstarted
from .leash import SHORT, is_shortage
from .spawning import blocked

log = logging.getLogger("holdfast.worker")

START = 60.0
"""Seconds that a process may take to load the application."""
GIVE_IN = 0.5
"""Seconds that a handler has to end after it was told to."""
IDLE = 60.0
"""Seconds without work after which a process ends."""
PAUSE = 5.0
"""Times the usual backoff: the pause before the first process is started again."""
LOOK_EVERY = 1.0
CHILD = "holdfast.worker.child"
CORES = os.cpu_count() or 1
_SIGNALS = {number.value: number.name for number in signal.Signals}


class NotStarted(Exception):
    """A process did not start; the message says why. Another may."""


class Refused(NotStarted):
    """A process cannot load the application, and no other will."""


class ChildDied(Exception):
    """The process has closed its socket."""


class Children:
    def __init__(self, address: str, definitions: Iterable[Definition], desk: Desk) -> None:
        self._address = address
        chosen = [definition for definition in definitions if definition.process]
        self._kinds = {definition.kind for definition in chosen}
        modules = {getattr(definition.function, "__module__", None) for definition in chosen}
        self._modules = sorted(name for name in modules if name and name != "__main__")
        self._desk = desk
        self._all: set[_Child] = set()
        """Until each is gone."""
        self._idle: list[_Child] = []
        self._waiting: deque[asyncio.Future[_Child]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False

    async def start(self) -> None:
        """The first one; refuses an application that it cannot load, and waits for whatever else is in the way."""
        if _is_child():
            raise ConfigurationError(
                "process=True: importing this application starts a worker, in each of the worker's processes again; "
                "start it under if __name__ == '__main__':"
            )
        self._idle.append(await self._insist())
        self._look()

    async def _insist(self) -> _Child:
        failures = 0
        while True:
            try:
                return await self._start()
            except (NotStarted, OSError) as error:
                if isinstance(error, Refused) or (isinstance(error, OSError) and not is_shortage(error)):
                    raise ConfigurationError(f"process=True: {error}") from None
                failures += 1
                log.warning("process=True: %s; trying again", error)
            await asyncio.sleep(PAUSE * backoff(failures))

    async def run(
        self, claim: Claim, reason: Callable[[], Exception | None], told: bool, begins: Callable[[], None]
    ) -> Outcome | None:
        """Run an attempt; None when it gave in. Cancelled, the attempt has ended, or else its process has.

        `reason` says why the hand was cancelled, `told` whether the handler can be told so. `begins` is called when
        there is a process for it.
        """
        try:
            child = await self._usable()
        except (NotStarted, OSError) as error:
            log.error("%s %s could not begin: %s; it is put off by %g s", claim.kind, claim.id, error, PUT_OFF)
            return unstarted(Unstarted.NO_PROCESS)
        ending = child.begin(claim)
        begins()
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            stop = reason()
            if told and isinstance(stop, (LeaseLost, Cancelled, Timeout)):
                child.tell(stop)
                await asyncio.wait([ending], timeout=GIVE_IN)
            if ending.done() and ending.exception() is None:
                return ending.result()
            await child.end()
            raise
        except ChildDied:
            return process_gone(Around.APART, await child.cause())
        finally:
            self._put_back(child)

    async def _usable(self) -> _Child:
        while True:
            child = self._next() or await self._first_free()
            if child.usable:
                return child
            child.kill()  # it died since it was put back

    def _next(self) -> _Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.usable and child.alive:
                return child
            child.kill()
        return None

    async def _first_free(self) -> _Child:
        place: asyncio.Future[_Child] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._start_more()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._put_back(place.result())  # it came at the same moment
            raise

    def _start_more(self) -> None:
        if self._closed:
            while (place := self._next_place()) is not None:
                place.set_exception(NotStarted("the worker ends"))
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

    def _next_place(self) -> asyncio.Future[_Child] | None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                return place
        return None

    def _put_back(self, child: _Child) -> None:
        if not child.usable:
            child.kill()
            self._start_more()
        elif (place := self._next_place()) is not None:
            place.set_result(child)
        else:
            child.idle_since = time.monotonic()
            self._idle.append(child)

    async def close(self) -> None:
        self._closed = True
        self._start_more()
        if self._looking is not None:
            self._looking.cancel()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for child in list(self._all):
            await child.end()
        self._all.clear()
        self._idle.clear()

    async def _start(self) -> _Child:
        child = _Child(self._address, self._modules, self._desk)
        self._all.add(child)
        try:
            async with asyncio.timeout(START):
                await child.connect()
                kinds = await child.ready
            if missing := sorted(self._kinds - set(kinds)):
                raise Refused(
                    f"a process that imports {self._address} knows no task {missing[0]!r}; register it where importing "
                    f"{' or '.join(self._modules) or 'that module'} runs the decorator"
                )
        except ChildDied:
            words = f"a process {await child.cause()} before it had loaded {self._address}"
            raise (NotStarted if child.may_pass else Refused)(words) from None
        except TimeoutError:
            child.kill()
            raise NotStarted(f"a process did not load {self._address} within {START:g} s") from None
        except BaseException:
            child.kill()
            raise
        return child

    def _look(self) -> None:
        """Let those go that nobody needs; and see the end of one whose socket something else still holds."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)
        now = time.monotonic()
        for child in self._idle[:-1]:  # the last one is the next to work, and stays
            if now - child.idle_since > IDLE:
                child.kill()
        for child in self._idle:
            if not child.usable:
                child.kill()
        self._idle = [child for child in self._idle if child.usable]
        for child in [child for child in self._all if not child.alive]:
            child.kill()
            self._all.remove(child)


def _is_child() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == CHILD


class _Child(asyncio.Protocol):
    """One process, as the worker sees it."""

    def __init__(self, address: str, modules: list[str], desk: Desk) -> None:
        self._desk = desk
        self._buffer = bytearray()
        self._decoder = msgspec.json.Decoder(talk.Up)
        self.ready: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        """The kinds that it knows."""
        self._claim: Claim
        self._ending: asyncio.Future[Outcome | None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self.idle_since = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._socket, theirs = socket.socketpair()
        reader, self._pipe_fd = os.pipe()
        orders = talk.Orders(
            app=address, modules=modules, path=sys.path, socket_fd=theirs.fileno(), pipe_fd=reader, parent=os.getpid(),
            log_level=logging.getLogger().level,
        )  # fmt: skip
        try:
            # Not awaited: a start that could be cancelled half-way would leave a process that nobody knows. And in this
            # thread, with which the kernel ends it.
            with blocked(talk.SIGNALS):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", CHILD],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "HOLDFAST_CHILD": msgspec.json.encode(orders).decode()},
                    pass_fds=(theirs.fileno(), reader),
                    process_group=0,
                )
        except BaseException:
            self._socket.close()
            os.close(self._pipe_fd)
            raise
        finally:
            theirs.close()
            os.close(reader)

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=self._socket)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def usable(self) -> bool:
        """Can it take an attempt?"""
        return self._pipe_fd >= 0 and self._transport is not None and self._ending is None

    def begin(self, claim: Claim) -> asyncio.Future[Outcome | None]:
        """Run an attempt. The future is always set in the end: by its outcome, or by the death of the process."""
        assert self._transport is not None
        self._claim = claim
        self._ending = ending = asyncio.get_running_loop().create_future()
        self._transport.write(talk.frame(talk.Run(claim)))
        return ending

    def tell(self, stop: LeaseLost | Cancelled | Timeout) -> None:
        message = talk.Stop(self._claim.id, self._claim.generation, type(stop).__name__, str(stop))
        try:
            os.write(self._pipe_fd, talk.frame(message))
        except OSError:
            log.debug("process %s is gone and cannot be told to stop", self._process.pid)

    def kill(self) -> None:
        """With what its handler has started, unless that has left its group."""
        if self.alive:  # while it is not reaped, nobody else can have its number
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._pipe_fd >= 0:
            os.close(self._pipe_fd)
            self._pipe_fd = -1
        if self._transport is not None:
            self._transport.abort()
        else:
            self._socket.close()

    async def end(self) -> None:
        """Kill it, and wait until it is gone: nothing runs any more when the row goes to others."""
        self.kill()
        while self.alive:
            await asyncio.sleep(0.001)

    async def cause(self) -> str:
        """How it ended; to be asked when its socket is closed, which is a moment before it is gone."""
        for _ in range(1000):
            if not self.alive:
                break
            await asyncio.sleep(0.001)
        else:
            await self.end()
            return "closed its connection to the worker"
        code = self._process.returncode
        if code == SHORT:
            return "had not enough memory, process slots or open files"
        if code >= 0:
            return f"ended with exit code {code}"
        return f"was ended by {_SIGNALS.get(-code, f'signal {-code}')}"

    @property
    def may_pass(self) -> bool:
        """Did it end by something that is not of its own doing? By a signal, or for lack of memory."""
        code = self._process.returncode
        return code is None or code < 0 or code == SHORT

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        for message in talk.take_frames(self._buffer):
            self._take(self._decoder.decode(message))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._socket.close()
        if not self.ready.done():
            self.ready.set_exception(ChildDied)
            self.ready.exception()  # seen, also when nobody waits any more
        if (ending := self._ending) is not None and not ending.done():
            ending.set_exception(ChildDied)
            ending.exception()

    def _take(self, message: talk.Up) -> None:
        match message:
            case talk.Ended():
                self._end(talk.outcome_of(message))
            case talk.GaveIn():
                self._end(None)
            case talk.Enter(key) | talk.Finish(key):
                self._answering = asyncio.get_running_loop().create_task(self._answer(message, key))
            case talk.Ready(kinds) if not self.ready.done():  # or nobody waits any more
                self.ready.set_result(kinds)
            case talk.Refused(problem) if not self.ready.done():
                self.ready.set_exception(Refused(problem))

    def _end(self, outcome: Outcome | None) -> None:
        ending, self._ending = self._ending, None
        if ending is not None and not ending.done():
            ending.set_result(outcome)

    async def _answer(self, question: talk.Enter | talk.Finish, key: str) -> None:
        try:
            if isinstance(question, talk.Enter):
                answer = talk.Entered(first=await self._desk.enter_once(self._claim, key))
            else:
                await self._desk.finish_once(self._claim, key)
                answer = talk.Entered()
        except OnceBusy:
            answer = talk.Entered(busy=True)
        except LeaseLost as lost:
            answer = talk.Entered(lost=True, error=str(lost))
        except Exception as error:
            answer = talk.Entered(error=f"{type(error).__name__}: {error}")
        if self._transport is not None:
            self._transport.write(talk.frame(answer))
