"""Starting a process of ours, so that a signal for everybody does not end it before it can say what that means."""

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
def blocked(signals: Iterable[signal.Signals]) -> Iterator[None]:
    """What is started meanwhile starts with these blocked: they wait until it can take them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Process:
    """One that runs a module of ours, with SIGINT blocked: Ctrl-C in a terminal is for its whole group.

    Not by the event loop's means: uvloop takes the mask away.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int]
    ) -> None:
        with blocked([signal.SIGINT]):
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
        """Until it has ended; how, as `subprocess` says it."""
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not on Linux; or no file is left to open
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
