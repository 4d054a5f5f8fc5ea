"""Brokers for tests: real servers on free ports of the loopback, with data folders of their own.

Each has a fixture, which tests/conftest.py imports: one server for each process that runs tests, running and empty of
what a test did not put there itself (a test uses names that no other test uses: `fresh`). A test may stop, kill and
freeze it; the fixture starts it again. A broker that is not installed: its tests are skipped, and the reason names the
package; HOLDFAST_NO_SKIPS=1 forbids that.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.embedded.account import Account
from holdfast.embedded.cluster import free_port
from holdfast.embedded.reaper import Reaper

IN_MEMORY = Path("/dev/shm")
"""Tests kill processes, not machines: a disk that all tests share would only make commits slow."""


def program(name: str, package: str) -> str:
    """The path of a server; without it, the test that asks is skipped."""
    # Beside the interpreter are the programs of wheels; some of Debian's are in a folder of root's path.
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    )
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed: left out what needs it ({package})")
    return found


def fresh(prefix: str = "t") -> str:
    """A name that no other test uses."""
    return f"{prefix}{secrets.token_hex(4)}"


def _stopped(pid: int | None) -> bool:
    """Do all threads of a process stand still?"""
    states = [task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "T" for state in states)


class Broker:
    """A server as a child of a reaper, which ends it and removes its folder when this process ends."""

    def __init__(self, name: str) -> None:
        parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK | os.X_OK) else None
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-", dir=parent))
        self.port = free_port()
        self.pid: int | None = None
        """None: it does not run."""
        self._log = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._reaper = Reaper(self.folder, Account("", os.geteuid(), os.getegid(), switch=False), self._log)

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        """The program and its arguments."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Can it be used? Asked until it can."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def start(self) -> None:
        """Start it, on the same port and data as before, and return when it can be used."""
        assert self.pid is None, f"{self.name} runs"
        self.pid = self._reaper.spawn(self.command())
        deadline = time.monotonic() + 100  # a busy machine takes a minute to start RabbitMQ
        while not self.answers():
            ended = self._reaper.wait(0.01)
            assert ended is None and time.monotonic() < deadline, f"{self.name} does not answer:\n{self.log()}"

    def stop(self) -> None:
        """Stop it as an operator would, and return when it has ended."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and return when it has ended."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Let it answer nothing any more: its connections stay open."""
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + 10
        while not _stopped(self.pid):  # its threads stop one by one, and may still answer
            assert time.monotonic() < deadline, f"{self.name} does not stop"
            time.sleep(0.002)

    def thaw(self) -> None:
        """Let a frozen one continue."""
        self._signal(signal.SIGCONT)

    def heal(self) -> None:
        """Let it run, whatever a test did to it."""
        if self.pid is None:
            self.start()
        else:
            self.thaw()

    def close(self) -> None:
        """End it and remove its data."""
        if self.pid is not None:
            self.kill()
        self._reaper.close()
        os.close(self._log)

    def log(self) -> str:
        """What it wrote."""
        return (self.folder / "log").read_text(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        assert self.pid is not None, f"{self.name} does not run"
        os.kill(self.pid, number)

    def _end(self, number: signal.Signals) -> None:
        self._signal(number)
        with contextlib.suppress(ProcessLookupError):  # it may have ended already
            self._signal(signal.SIGCONT)  # one that is frozen would not see it
        assert self._reaper.wait(60) is not None, f"{self.name} did not end within a minute"
        self.pid = None
