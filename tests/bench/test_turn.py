"""A turn runs with the source that was meant or not at all, and a whole comparison leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import ROOT
from tests.support.waiting import wait_until

from bench.processes import family
from bench.turn import source
from bench.turn.start import TurnFailed, turn

pytestmark = pytest.mark.direct  # benchmarks measure a server, not the way to it


async def test_a_turn_with_another_source_is_refused(migrated_url: str, tmp_path: Path) -> None:
    environment = {**os.environ, source.VARIABLE: str(tmp_path / "src")}
    with pytest.raises(TurnFailed, match=r"WrongSource: holdfast was to be imported from .*, and came from"):
        await turn("enqueue", "short", migrated_url, None, environment)


def test_so_is_a_worker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.app:hf"]
    environment = {
        **os.environ,
        source.VARIABLE: str(tmp_path / "src"),
        "HOLDFAST_DATABASE_URL": "postgresql://nowhere/",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert "holdfast was to be imported from" in done.stderr


async def test_a_turn_measures_with_the_source_that_was_meant(migrated_url: str) -> None:
    environment = {**os.environ, source.VARIABLE: str(ROOT / "src")}
    measured = await turn("enqueue", "short", migrated_url, None, environment)
    assert [each.case for each in measured] == ["single", "bulk", "copy"]
    assert all(each.values[0] > 0 and each.cpu is None for each in measured)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of this one with one commit, found in its own folder and not by the installation."""
    for name in ("src", "bench"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All of it"]):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
        subprocess.run(git, cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.slow
def test_an_interrupt_shows_whole_pairs_and_leaves_no_process_and_no_folder(repository: Path) -> None:
    command = [sys.executable, "-m", "bench", "--against", "HEAD", "enqueue", "drain"]
    environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_DATABASE_URL"}
    with subprocess.Popen(
        command, cwd=repository, env={**environment, "PYTHONPATH": str(repository / "src")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "turn 1 of 15, enqueue" in line:
                break
        wait_until(lambda: "worker" in commands(family(process.pid)), 80)
        there = family(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest = process.stdout.read()
    assert process.returncode == 130, "".join(said) + rest
    assert "interrupted: only complete pairs of turns count" in rest
    assert "one per commit" in rest and "no-op jobs" not in rest
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in there))
    assert [path.name for path in (repository / "build").iterdir()] == ["compare.json"]


def commands(pids: list[int]) -> set[str]:
    words: set[str] = set()
    for pid in pids:
        try:
            words.update(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0"))
        except OSError:
            continue
    return words
