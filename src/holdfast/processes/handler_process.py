"""A process that runs handlers for a worker, one attempt at a time: `python -m holdfast.processes.handler_process`.

Attempts come through a socket, and their outcomes go back through it. A pipe tells that an attempt should stop. When
the pipe closes, the worker is gone and the process exits at once; on Linux the kernel ensures this even when no Python
code can run.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any, cast

import msgspec

from ..app import Holdfast
from ..context import NO_STATE, Context, run_without_loop
from ..definitions import Definition
from ..errors import Cancelled, ConfigurationError, HoldfastError, LeaseLost, Timeout
from ..loading import import_module, load_app
from ..middleware import surround
from ..model.job import Claim
from ..model.questions import Progress, Question
from ..model.tracing import Tracing
from ..worker.attempts.deciding import OnceBusy, raised, returned
from ..worker.exit_codes import CONFIGURATION, ORPHANED, SHORT, is_shortage
from ..worker.handler_processes import protocol
from ..worker.logs import current, log_to_stderr, mark_records, print_by_line
from ..worker.parent_death import die_with

log = logging.getLogger("holdfast.worker")

TELL_EVERY = 0.2
"""Seconds between two reports of a handler's progress to its worker."""
_STOPS: dict[str, type[LeaseLost | Cancelled | Timeout]] = {
    "LeaseLost": LeaseLost,
    "Cancelled": Cancelled,
    "Timeout": Timeout,
}


def main() -> int:
    start = msgspec.json.decode(os.environ.pop("HOLDFAST_HANDLER_PROCESS").encode(), type=protocol.Start)
    die_with(start.parent)
    log_to_stderr(start.log_level, start.log_format)
    mark_records()
    print_by_line()
    # Not SIG_IGN: programs that a handler starts would inherit it.
    for number in protocol.SIGNALS:
        signal.signal(number, lambda *_: None)
    _unblock_signals()
    os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_own_signals)
    for fd in (start.socket_fd, start.pipe_fd):
        os.set_inheritable(fd, False)
    wire = Wire(socket.socket(fileno=start.socket_fd))
    with ExitStack() as lifespan:
        try:
            app = _load(start)
            state = _enter(app, lifespan)
        except ConfigurationError as error:
            wire.send(protocol.Refused(str(error)))
            return CONFIGURATION
        except Exception as error:
            if not is_shortage(error):
                raise
            traceback.print_exc()
            return SHORT
        definitions = {kind: surround(task._definition, app._middleware) for kind, task in app.tasks.items()}
        Handlers(wire, definitions, start.pipe_fd, state, app._tracing).serve()
        _leave(lifespan)
    wire.send(protocol.Left())
    wire.receive()  # never returns: the worker kills this process, and what its handlers have left in its group
    return 0


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, protocol.SIGNALS)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, protocol.SIGNALS)


def _own_signals() -> None:
    """Restore the signals in a forked process, for example of multiprocessing, so that it can be ended as usual."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _unblock_signals()


def _load(start: protocol.Start) -> Holdfast:
    sys.path[:] = start.path
    app = load_app(start.app, start.imports)
    for module in start.modules:
        import_module(module)
    return app


def _enter(app: Holdfast, lifespan: ExitStack) -> Any:
    if app._lifespan_sync is None:
        return NO_STATE
    try:
        return lifespan.enter_context(app._lifespan_sync(app))
    except Exception as error:
        if is_shortage(error):
            raise
        log.error("lifespan_sync could not be entered", exc_info=error)
        raise ConfigurationError(f"lifespan_sync could not be entered: {type(error).__name__}: {error}") from None


def _leave(lifespan: ExitStack) -> None:
    try:
        lifespan.close()
    except Exception as error:
        log.error("lifespan_sync raised an error when it was left", exc_info=error)


class Wire:
    """The connection to the worker, for one thread at a time."""

    def __init__(self, to_worker: socket.socket) -> None:
        to_worker.setblocking(True)  # it would not be, if the worker's application has set a default timeout
        self._socket = to_worker
        self._buffer = bytearray()
        self._decoder = msgspec.json.Decoder(protocol.Down)

    def send(self, message: protocol.Up) -> None:
        try:
            self._socket.sendall(protocol.frame(message))
        except OSError:
            os._exit(ORPHANED)

    def receive(self) -> protocol.Down:
        while True:
            message = next(protocol.take_frames(self._buffer), None)
            if message is not None:
                return cast(protocol.Down, self._decoder.decode(message))
            data = self._read()
            if not data:
                os._exit(ORPHANED)
            self._buffer += data

    def ask(self, question: Question) -> protocol.Answer:
        self.send(protocol.Ask(question))
        answer = self.receive()
        assert isinstance(answer, protocol.Answer)
        return answer

    def _read(self) -> bytes:
        try:
            return self._socket.recv(256 * 1024)
        except OSError:
            return b""


class Handlers:
    """Runs attempts, one after the other; also the desk for their contexts."""

    def __init__(
        self,
        wire: Wire,
        definitions: Mapping[str, Definition],
        pipe_fd: int,
        state: Any,
        tracing: Tracing | None = None,
    ) -> None:
        self._wire = wire
        self.state = state
        self._definitions = definitions
        self._pipe_fd = pipe_fd
        self._tracing = tracing
        self._pid = os.getpid()
        self._asking = threading.Lock()
        """One question at a time, from any thread of the handler, and none after its attempt."""
        self._context: Context | None = None
        self._noted = threading.Event()
        self._note: tuple[Claim, Progress] | None = None
        self._telling: threading.Thread | None = None
        self._stop: protocol.Stop | None = None

    def serve(self) -> None:
        """Run attempts until the worker has no more."""
        threading.Thread(target=self._read_stops, name="holdfast worker's pipe", daemon=True).start()
        self._wire.send(protocol.Ready(sorted(self._definitions), leaves=self.state is not NO_STATE))
        while isinstance(order := self._wire.receive(), protocol.Run):
            self._wire.send(copy_context().run(self._run, order.claim))

    def _run(self, claim: Claim) -> protocol.Ended | protocol.GaveIn:
        current.set(claim)
        if self._tracing is not None and claim.carried:
            self._tracing.resume(claim.carried)
        context = Context(claim, self)
        self._context = context
        self._tell(context)  # it may have been stopped before it began
        try:
            definition = self._definitions[claim.kind]
            arguments = definition.decode(claim.payload, claim.version)
            value = definition.function(*(context,) if definition.wants_context else (), **arguments)
            return protocol.ended(returned(value))
        except BaseException as error:
            if context.stopping and isinstance(error, (Cancelled, Timeout)):
                return protocol.GaveIn()
            known = self._definitions.get(claim.kind)
            return protocol.ended(raised(error, claim.attempt, known.retry if known is not None else None))
        finally:
            with self._asking:
                self._context = None

    # Stopping

    def _read_stops(self) -> None:
        buffer, decoder = bytearray(), msgspec.json.Decoder(protocol.Stop)
        while data := os.read(self._pipe_fd, 4096):
            buffer += data
            for message in protocol.take_frames(buffer):
                self._stop = decoder.decode(message)
                if (context := self._context) is not None:
                    self._tell(context)
        os._exit(ORPHANED)

    def _tell(self, context: Context) -> None:
        stop = self._stop
        if stop is not None and (stop.id, stop.generation) == (context.job_id, context.generation):
            context._tell(_STOPS[stop.error](stop.message))

    # The desk

    def note(self, claim: Claim, progress: Progress) -> None:
        if os.getpid() != self._pid:
            return  # a process that the handler forked shares the socket
        self._note = claim, progress
        self._noted.set()
        if self._telling is None:
            self._telling = threading.Thread(target=self._tell_progress, name="holdfast progress", daemon=True)
            self._telling.start()

    def _tell_progress(self) -> None:
        """Send the latest progress now and then: a handler may report it a million times."""
        while self._noted.wait():
            self._noted.clear()
            note = self._note
            with self._asking:
                if note is not None and self._context is not None and self._context._claim is note[0]:
                    self._wire.send(protocol.Tell(note[1]))
            time.sleep(TELL_EVERY)

    async def ask(self, claim: Claim, question: Question) -> bool:
        if os.getpid() != self._pid:
            raise HoldfastError(f"once({question.key!r}): call it in the handler's process, not in one that it forked")
        with self._asking:
            if self._context is None or self._context._claim is not claim:
                raise HoldfastError(f"once({question.key!r}): its attempt has ended; join threads before returning")
            answer = self._wire.ask(question)
        if answer.busy:
            raise OnceBusy(question.key)
        if answer.lost:
            raise LeaseLost(answer.error)
        if answer.error:
            raise HoldfastError(answer.error)
        return answer.value

    def wait(self, work: Awaitable[Any]) -> Any:
        return run_without_loop(work)


if __name__ == "__main__":
    sys.exit(main())
