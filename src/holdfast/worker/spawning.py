"""Start a process with signals blocked, so that a signal to the whole group does not end it before it can handle it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

LOOK_EVERY = 0.05


@contextmanager
def masked(signals: Iterable[signal.Signals]) -> Iterator[None]:
    """Block these signals in processes that are started inside: the signals wait until the process can handle them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Process:
    """A process that runs one of our modules, with SIGINT blocked: Ctrl-C in a terminal goes to the whole group.

    Not started through the event loop: uvloop resets the signal mask.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int]
    ) -> None:
        with masked([signal.SIGINT]):
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdin=subprocess.DEVNULL, env=environment, pass_fds=pass_fds
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        """Wait until it has ended; return its code, as `subprocess` does."""
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not on Linux, or no file descriptor is free
            while self.alive:
                await asyncio.sleep(LOOK_EVERY)
        else:
            await _readable(fd)
        return self._process.wait()


async def _readable(fd: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(fd, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
