"""The demo as a process."""

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes import processes_mentioning
from tests.support.waiting import wait_until

PROGRAM = ("-m", "holdfast.cli")
LEFT_OUT = ("HOLDFAST_DATABASE_URL", "HOLDFAST_DASHBOARD_TOKEN")
PATIENCE = 90.0
"""Seconds for a server, a schema and three workers to start, on a machine that does other things, too."""


def start(
    temporary: Path, *arguments: str, program: Sequence[str] = PROGRAM, terminal: int | None = None, **variables: str
) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return subprocess.Popen(
        [sys.executable, *program, "demo", *arguments],
        env={**environment, "TMPDIR": str(temporary), **variables},
        stdin=subprocess.DEVNULL if terminal is None else terminal,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.PIPE if terminal is None else terminal,
        text=True,
        start_new_session=True,
    )


def left_behind(process: subprocess.Popen[str], temporary: Path) -> list[object]:
    """Folders, servers and processes of this demo; all but the server's reaper stay in its session."""
    return [*temporary.glob("holdfast-*"), *processes_mentioning(temporary), *of_session(process.pid)]


def of_session(leader: int) -> list[int]:
    return [pid for pid, argv in processes_mentioning("") if argv != [""] and session_of(pid) == leader]


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def wait_for_words(process: subprocess.Popen[str], words: str) -> list[str]:
    """Return the lines until one has these words."""
    assert process.stdout is not None
    lines = [process.stdout.readline().rstrip()]
    while words not in lines[-1]:
        assert process.poll() is None
        lines.append(process.stdout.readline().rstrip())
    return lines


class Terminal:
    """The demo in front of somebody: its input and its output are a terminal."""

    def __init__(self, temporary: Path, *arguments: str, **variables: str) -> None:
        self._own, theirs = pty.openpty()
        quiet = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
        self.process = start(temporary, *arguments, **quiet, **variables, terminal=theirs)
        os.close(theirs)
        self._said = b""
        self._thread = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._own, 65536):
                self._said += data
        except OSError:  # the other end is closed
            pass

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace")

    @property
    def address(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+", self.said)
        assert found is not None, self.said
        return found.group()

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.said or self.process.poll() is not None, PATIENCE)
        assert words in self.said, self.said

    def close(self) -> None:
        """After its end. The reader has ended with it, or it would read what gets this number next."""
        self._thread.join(30)
        os.close(self._own)
