"""`python -m bench`: what it says, and that it leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import ROOT
from tests.support.waiting import wait_until

from bench.__main__ import KNOWN
from bench.processes import family


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_help_names_every_axis() -> None:
    said = bench("--help").stdout
    for name, (_, words) in KNOWN.items():
        assert name in said and words in said


def test_an_unknown_axis_is_refused() -> None:
    done = bench("drian")
    assert done.returncode == 2
    assert "there is no drian; there are drain, " in done.stderr


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_measured_and_leaves_no_process(tmp_path: Path) -> None:
    figures = tmp_path / "bench.json"
    command = [sys.executable, "-m", "bench", "enqueue", "drain", "--json", str(figures)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "1 of 5" in line:
                break
        wait_until(lambda: "worker" in _commands(family(process.pid)), 90)
        there = family(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest = process.stdout.read()
    assert process.returncode == 130, "".join(said) + rest
    assert "interrupted: the table shows only what was measured" in rest
    assert "one per commit" in figures.read_text(encoding="utf-8")
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in there))


def _commands(pids: list[int]) -> set[str]:
    words: set[str] = set()
    for pid in pids:
        try:
            words.update(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0"))
        except OSError:
            continue
    return words
