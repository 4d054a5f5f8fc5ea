"""Child processes: each leads its own process group, is ended as a group, and never outlives this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PARENT_DEATH = Path(__file__).with_name("parent_death.py")


class ChildProcess:
    """A program in its own process group; its output goes to a file."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._command = [sys.executable, "-I", "-S", str(PARENT_DEATH), str(os.getpid()), sys.executable, *command]
        self._environment = dict(environment)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.killed = False
        """Killed by us and not restarted yet, so it is expected not to run."""

    def start(self) -> None:
        """Start it. Not async: a start that is cancelled half-way would leave a process that we do not know."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, process_group=0
            )
        self.killed = False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def signal_all(self, number: signal.Signals) -> None:
        """Signal the whole group at once, so that a supervisor cannot react to the end of its worker process."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def ask_to_end(self) -> None:
        if self.running and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    async def wait(self, seconds: float) -> bool:
        """Return whether it ended within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        return not self.running

    async def kill(self) -> None:
        self.killed = True
        self.signal_all(signal.SIGKILL)
        await self.wait(10)

    def owns(self, pid: int) -> bool:
        """Return whether this process belongs to the group."""
        try:
            return self.running and os.getpgid(pid) == self.pid
        except ProcessLookupError:
            return False

    def log_tail(self, limit: int = 2000) -> str:
        return self._log.read_text(errors="replace")[-limit:].strip() if self._log.exists() else ""


def worker(number: int, environment: Mapping[str, str], folder: Path) -> ChildProcess:
    """A supervisor with one worker process; its times are short, so that recovery can be watched."""
    command = [
        "-m", "holdfast.cli", "worker", "holdfast.demo.shop:hf", "--processes", "1", "--concurrency", "10",
        "--lease", "2s", "--housekeeping", "0.4s", "--poll", "0.1s", "--drain", "10s", "--log-level", "WARNING",
    ]  # fmt: skip
    return ChildProcess(f"worker {number}", command, environment, folder / f"worker-{number}.log")


def producer(environment: Mapping[str, str], folder: Path) -> ChildProcess:
    return ChildProcess("producer", ["-m", "holdfast.demo.producer"], environment, folder / "producer.words")
