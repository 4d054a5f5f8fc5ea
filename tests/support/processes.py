"""Asking which processes live."""

import subprocess
from pathlib import Path

PROC = Path("/proc")


def processes_mentioning(what: Path | str) -> list[tuple[int, list[str]]]:
    """Living processes with `what` in their arguments, as pids with the arguments."""
    return [(pid, argv) for pid, argv in _all() if any(str(what) in word for word in argv)]


def _all() -> list[tuple[int, list[str]]]:
    if not (PROC / "self" / "cmdline").exists():
        listing = subprocess.run(["/bin/ps", "-A", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        rows = (line.split() for line in listing.stdout.splitlines())
        return [(int(row[0]), row[1:]) for row in rows]
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()  # empty for one that ended and is not reaped
            except OSError:
                continue
            found.append((int(entry.name), line.decode(errors="replace").split("\0")))
    return found
