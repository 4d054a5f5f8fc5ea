"""Ctrl-C in a terminal reaches every process of the foreground group, at any moment."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps import witness
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Fleet, Worker

pytestmark = pytest.mark.faults


def in_terminal(fleet: Fleet, folder: Path) -> tuple[Worker, int]:
    """A worker in the foreground of a terminal of its own, and the keyboard."""
    keyboard, terminal = pty.openpty()
    log_file = folder / "worker.log"
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": fleet.inbox.url, witness.VARIABLE: str(fleet.witness_file)}
    command = [sys.executable, "-m", "holdfast.cli", "worker", "tests.apps.effects:hf"]
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            cwd=ROOT, env=variables, stdin=terminal, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    os.close(terminal)
    worker = Worker(process, log_file)
    fleet.workers.append(worker)
    return worker, keyboard


TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("after", [0.0, 0.05, 0.15, 0.4])
def test_while_a_process_starts_it_is_a_quiet_end(fleet: Fleet, tmp_path: Path, after: float) -> None:
    worker, keyboard = in_terminal(fleet, tmp_path)
    try:
        wait_until(lambda: bool(worker.children))
        time.sleep(after)  # somewhere in the imports of the process
        os.write(keyboard, b"\x03")
        assert worker.wait(20) == 0, worker.log
    finally:
        os.close(keyboard)
    assert "SIGINT: draining" in worker.log
    assert "Traceback" not in worker.log
    assert "Error" not in worker.log
