"""Processes that do not start: by a signal, or for lack of something. That is no mistake of the application."""

import os
import resource
import signal
from pathlib import Path

import pytest
from tests.apps.slow_start import VARIABLE
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker

pytestmark = pytest.mark.faults


def launch(fleet: Fleet, folder: Path) -> Worker:
    return fleet.launch(app="tests.apps.slow_start:hf", environment={VARIABLE: str(folder)})


def test_a_handler_s_process_killed_while_it_starts_is_started_again(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    worker = launch(fleet, tmp_path)
    said = "a process was ended by SIGKILL before it had loaded tests.apps.slow_start:hf; trying again"
    for times in (1, 2):
        wait_until(lambda times=times: len(list(tmp_path.glob("pid-*"))) == times)  # type: ignore[misc]
        newest = max(tmp_path.glob("pid-*"), key=lambda path: path.stat().st_mtime_ns)
        os.kill(int(newest.name.removeprefix("pid-")), signal.SIGKILL)
        wait_until(lambda times=times: worker.log.count(said) == times)  # type: ignore[misc]
    (tmp_path / "wait").unlink()
    fleet.inbox.wait(fleet.inbox.enqueue("compute"), seconds=30)
    assert worker.process.poll() is None
    assert worker.drain() == 0


def test_a_handler_s_process_out_of_memory_while_it_starts_is_started_again(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "memory").touch()
    worker = launch(fleet, tmp_path)
    wait_until(lambda: "did not have enough memory, process slots or open files before it had loaded" in worker.log)
    (tmp_path / "memory").unlink()
    fleet.inbox.wait(fleet.inbox.enqueue("compute"), seconds=30)
    assert worker.drain() == 0


def test_a_supervisor_out_of_open_files_starts_its_process_when_there_are_some(fleet: Fleet) -> None:
    worker = fleet.start()
    fleet.inbox.wait(fleet.inbox.enqueue("quick"))
    first = worker.child
    os.kill(first, signal.SIGKILL)  # after which it has all that it needs to hand rows back
    wait_until(lambda: worker.children not in ([], [first]))
    fleet.inbox.wait(fleet.inbox.enqueue("quick"))
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    os.kill(worker.child, signal.SIGKILL)
    said = "a worker process could not be started: [Errno 24] Too many open files; trying again"
    wait_until(lambda: said in worker.log, 20)
    assert worker.process.poll() is None
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
    fleet.inbox.wait(fleet.inbox.enqueue("quick"), seconds=30)
    assert worker.drain() == 0
