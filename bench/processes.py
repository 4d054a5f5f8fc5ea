"""A real `holdfast worker`, and what the kernel says about processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_workers: list[subprocess.Popen[bytes]] = []


class WorkerEnded(Exception):
    """A worker ended before the benchmark did."""


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found = [pid]
    for member in found:
        found.extend(parents.get(member, []))
    return found


def memory(pids: list[int]) -> float:
    """Resident megabytes of these processes together; pages that they share count for each."""
    total = 0
    for pid in pids:
        try:
            total += int((_PROC / str(pid) / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process, its descendants, and those that have already ended."""
    ticks = 0
    for member in family(pid):
        if stat := _stat(member):
            ticks += sum(int(field) for field in stat[11:15])
    return ticks / _TICKS


def _stat(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


@contextmanager
def worker(url: str, *options: str, app: str = "hf", may_end: bool = False) -> Iterator[int]:
    """`holdfast worker` with one of the benchmarks' applications, in processes of its own; the supervisor's pid."""
    place = app if ":" in app else f"bench.app:{app}"
    command = [sys.executable, "-m", "holdfast.cli", "worker", place, "--log-level", "WARNING", *options]
    environment = {**os.environ, "HOLDFAST_DATABASE_URL": url}
    with subprocess.Popen(command, cwd=Path(__file__).parent.parent, env=environment) as process:
        if not may_end:
            _workers.append(process)
        try:
            yield process.pid
        finally:
            if not may_end:
                _workers.remove(process)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def check_workers() -> None:
    """Raise if a worker has ended; called regularly while the benchmark waits for one."""
    for process in _workers:
        if process.poll() is not None:
            raise WorkerEnded(f"the worker ended with code {process.returncode}; its output is above")
