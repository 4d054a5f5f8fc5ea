"""The processes of a server: a postmaster and its children, each in its own session."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")


def crash(postmaster: int) -> None:
    """SIGKILL the postmaster and its children, so that none can react."""
    _signal(postmaster, signal.SIGSTOP)  # so that it starts no child between the listing and the kill
    children = children_of(postmaster)
    for pid in (postmaster, *children):
        _signal(pid, signal.SIGKILL)
    # A new start can use its memory only when the last child has ended.
    deadline = time.monotonic() + 10
    while any(map(is_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.005)


def children_of(parent: int) -> list[int]:
    """Return the direct children of a process."""
    if not (PROC / "self" / "stat").exists():
        return [pid for pid, ppid in _ps() if ppid == parent]
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and _proc_stat(int(entry.name))[1] == parent:
            found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process still runs. A zombie does not."""
    if (PROC / "self" / "stat").exists():
        return _proc_stat(pid)[0] not in ("", "Z", "X")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _proc_stat(pid: int) -> tuple[str, int]:
    try:
        after_name = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return after_name[0], int(after_name[1])
    except (OSError, IndexError):
        return "", 0


def _ps() -> list[tuple[int, int]]:
    listing = subprocess.run(["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in listing.stdout.splitlines())
    return [(int(pid), int(ppid)) for pid, ppid in rows]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
