"""A handler process, as the worker sees it: its socket, its pipe, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from typing import assert_never, cast

import msgspec

from ...context import Desk
from ...errors import Cancelled, LeaseLost, Timeout
from ...model.job import Claim
from ...model.outcome import Outcome
from ...model.questions import Question
from ..attempts.deciding import OnceBusy
from ..exit_codes import SHORT
from ..logs import chosen_format
from ..spawning import masked
from . import protocol

log = logging.getLogger("holdfast.worker")

PROGRAM = "holdfast.processes.handler_process"
LEAVING = 5.0
"""Seconds that a process has to leave `lifespan_sync`."""
_SIGNALS = {number.value: number.name for number in signal.Signals}


class NotStarted(Exception):
    """A process did not start; the message says why. A retry may succeed."""


class Refused(NotStarted):
    """A process cannot load the application; a retry would not help."""


class ProcessDied(Exception):
    """The process has closed its socket."""


class HandlerProcess(asyncio.Protocol):
    def __init__(self, import_path: str, imports: list[str], modules: list[str], desk: Desk) -> None:
        self._desk = desk
        self._buffer = bytearray()
        self._decoder = msgspec.json.Decoder(protocol.Up)
        self.ready: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        """The kinds that it knows."""
        self._claim: Claim
        self._ending: asyncio.Future[Outcome | None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._leaves = False
        self._left: asyncio.Future[None] | None = None
        """Set when it was asked to leave; done when it has."""
        self.idle_since = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._socket, theirs = socket.socketpair()
        reader, self._pipe_fd = os.pipe()
        start = protocol.Start(
            app=import_path, imports=imports, modules=modules, path=sys.path, socket_fd=theirs.fileno(), pipe_fd=reader,
            parent=os.getpid(), log_level=logging.getLogger().level, log_format=chosen_format(),
        )  # fmt: skip
        try:
            # Not awaited: a start that is cancelled half-way would leave an unknown process. And in this thread: the
            # kernel ends the process when the thread ends.
            with masked(protocol.SIGNALS):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", PROGRAM],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "HOLDFAST_HANDLER_PROCESS": msgspec.json.encode(start).decode()},
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
        return self._pipe_fd >= 0 and self._transport is not None and self._ending is None and self._left is None

    def begin(self, claim: Claim) -> asyncio.Future[Outcome | None]:
        """Run an attempt. The future is always set: by its outcome, or when the process dies."""
        assert self._transport is not None
        self._claim = claim
        self._ending = ending = asyncio.get_running_loop().create_future()
        # Where it is counted is ours, and not for another process.
        sent = msgspec.structs.replace(claim, counted_in=None)
        self._transport.write(protocol.frame(protocol.Run(sent)))
        return ending

    def tell(self, stop: LeaseLost | Cancelled | Timeout) -> None:
        message = protocol.Stop(self._claim.id, self._claim.generation, type(stop).__name__, str(stop))
        try:
            os.write(self._pipe_fd, protocol.frame(message))
        except OSError:
            log.debug("process %s is gone and cannot be told to stop", self._process.pid)

    async def leave(self) -> None:
        """Let it leave `lifespan_sync`, if it has one and is idle. It takes no more attempts; `kill` comes next."""
        if not self.usable or not self._leaves:
            return
        assert self._transport is not None
        self._left = asyncio.get_running_loop().create_future()
        self._transport.write(protocol.frame(protocol.Leave()))
        try:
            async with asyncio.timeout(LEAVING):
                await self._left
        except TimeoutError:
            log.warning("killing process %s, which did not leave lifespan_sync within %g s", self._process.pid, LEAVING)

    def kill(self) -> None:
        """Kill it, and all processes of its group, which its handler may have started."""
        if self.alive:  # until it is reaped, its pid cannot be reused
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._pipe_fd >= 0:
            os.close(self._pipe_fd)
            self._pipe_fd = -1
        if self._transport is not None:
            self._transport.abort()
        else:
            self._socket.close()

    async def end(self) -> None:
        """Kill it, and wait until it is gone: nothing may run any more when others get the row."""
        self.kill()
        while self.alive:
            await asyncio.sleep(0.001)

    async def cause(self) -> str:
        """How it ended; called when its socket is closed, which is a moment before it is gone."""
        for _ in range(1000):
            if not self.alive:
                break
            await asyncio.sleep(0.001)
        else:
            await self.end()
            return "closed its connection to the worker"
        code = self._process.returncode
        if code == SHORT:
            return "did not have enough memory, process slots or open files"
        if code >= 0:
            return f"ended with exit code {code}"
        return f"was ended by {_SIGNALS.get(-code, f'signal {-code}')}"

    @property
    def may_pass(self) -> bool:
        """Is the cause temporary, such as a signal or a lack of memory, so that a retry may succeed?"""
        code = self._process.returncode
        return code is None or code < 0 or code == SHORT

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        for message in protocol.take_frames(self._buffer):
            self._take(self._decoder.decode(message))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._socket.close()
        if not self.ready.done():
            self.ready.set_exception(ProcessDied)
            self.ready.exception()  # marked as retrieved, even if nothing waits for it
        if (ending := self._ending) is not None and not ending.done():
            ending.set_exception(ProcessDied)
            ending.exception()
        self._note_left()

    def _take(self, message: protocol.Up) -> None:
        match message:
            case protocol.Ended():
                self._end(protocol.outcome_of(message))
            case protocol.GaveIn():
                self._end(None)
            case protocol.Ask(question):
                self._answering = asyncio.get_running_loop().create_task(self._answer(question))
            case protocol.Tell(progress):
                self._desk.note(self._claim, progress)
            case protocol.Ready(kinds, leaves) if not self.ready.done():  # otherwise nothing waits for it
                self._leaves = leaves
                self.ready.set_result(kinds)
            case protocol.Left():
                self._note_left()
            case protocol.Refused(problem) if not self.ready.done():
                self.ready.set_exception(Refused(problem))
            case protocol.Ready() | protocol.Refused():
                pass
            case _:
                assert_never(message)

    def _end(self, outcome: Outcome | None) -> None:
        ending, self._ending = self._ending, None
        if ending is not None and not ending.done():
            ending.set_result(outcome)

    def _note_left(self) -> None:
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    async def _answer(self, question: Question) -> None:
        try:
            answer = protocol.Answer(await self._desk.ask(self._claim, question))
        except OnceBusy:
            answer = protocol.Answer(busy=True)
        except LeaseLost as lost:
            answer = protocol.Answer(lost=True, error=str(lost))
        except Exception as error:
            answer = protocol.Answer(error=f"{type(error).__name__}: {error}")
        if self._transport is not None:
            self._transport.write(protocol.frame(answer))
