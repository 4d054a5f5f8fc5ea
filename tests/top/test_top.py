"""`holdfast top` on a real installation, in a real terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Shell


@dataclass
class Terminal:
    """A pseudo-terminal with `holdfast top` in it."""

    process: subprocess.Popen[bytes]
    master: int
    slave: int
    seen: str = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)

    def press(self, key: str) -> None:
        self.seen = ""
        os.write(self.master, key.encode())

    def wait(self, pattern: str, seconds: float = 60) -> str:
        """Until what was written since the last key matches."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.seen, re.S):
            assert time.monotonic() < deadline, f"{pattern} is not in {self.seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # the terminal is closed
                    assert re.search(pattern, self.seen, re.S), self.seen
        return self.seen


@pytest.fixture
def terminal(shell: Shell) -> Iterator[Terminal]:
    shell.enqueue(queue="mail")
    shell.enqueue(queue="aaa")
    shell.dead_letter(error="Boom: the printer is on fire")
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", "top", "--every", "0.2s"],
        stdin=slave, stdout=slave, stderr=slave, cwd=shell.folder, env=shell.variables({"TERM": "xterm"}),
        start_new_session=True,
    )  # fmt: skip
    yield Terminal(process, master, slave)
    process.kill()
    process.wait()
    os.close(master)
    os.close(slave)


def test_in_a_terminal(terminal: Terminal, shell: Shell) -> None:
    before = termios.tcgetattr(terminal.slave)
    text = terminal.wait(r"\x1b\[\?1049h.*q quit")
    for words in ("Depth 2", "QUEUES by depth", "mail", "Boom: the printer is on fire", "▲ no live worker"):
        assert words in text, words
    terminal.press("n")
    listed = terminal.wait(r"QUEUES by name.*aaa.*mail.*q quit")
    assert "QUEUES by depth" not in listed[listed.index("QUEUES by name") :]  # it may have drawn before it read the key
    terminal.press("")
    shell.sql("update holdfast.queues set paused_at = now() where name = 'mail'")
    shell.sql("insert into holdfast.queues (name, paused_at) values ('mail', now()) on conflict do nothing")
    terminal.wait(r"paused: mail")  # it looks again by itself
    terminal.press("")
    terminal.resize(200, 50)
    terminal.wait(r"queues|later")  # columns that 80 have no room for
    terminal.press("q")
    terminal.wait(r"\x1b\[\?25h\x1b\[\?1049l")
    assert terminal.process.wait(30) == 0
    assert termios.tcgetattr(terminal.slave) == before, "the terminal is as it was"


def test_sigterm_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.slave)
    terminal.wait("q quit")
    terminal.process.terminate()
    terminal.wait(r"\x1b\[\?1049l")
    assert terminal.process.wait(30) == 0
    assert termios.tcgetattr(terminal.slave) == before


def test_one_frame(shell: Shell) -> None:
    shell.enqueue(queue="mail")
    answer = shell("top", "--once", COLUMNS="80", LINES="25")
    assert answer.code == 0, answer.all
    lines = answer.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert re.search(r"^mail +1 ", answer.out, re.M)
    assert "no dead letters" in answer.out
    assert "\x1b" not in answer.out


def test_without_a_terminal(shell: Shell) -> None:
    answer = shell("top")
    assert answer.code == 1
    assert answer.err == "holdfast: top needs a terminal. For one frame: holdfast top --once\n"


def test_without_a_schema(bare: Shell, tmp_path: Path) -> None:
    answer = bare("top", "--once")
    assert answer.code == 1
    assert "holdfast migrate" in answer.err
