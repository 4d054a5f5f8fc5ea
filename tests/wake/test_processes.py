"""Wake-ups through a supervisor to its processes, which would not look again by themselves for an hour."""

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.apps import witness
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Fleet, Inbox, Worker
from tests.wake.conftest import Flags

pytestmark = pytest.mark.direct  # LISTEN itself: there is none behind a pooler

SUPERVISOR = """
import asyncio
from holdfast.worker.loading import load_app
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.supervisor import Supervisor

async def main():
    app = "tests.apps.effects:hf"
    settings = WorkerSettings(poll_min=3600, poll_max=3600, lease=3, housekeeping=60, concurrency=2)
    return await Supervisor(load_app(app), app, settings, 2, "INFO").run()

raise SystemExit(asyncio.run(main()))
"""


@pytest.fixture
def sleepers(inbox: Inbox, tmp_path: Path) -> Iterator[Worker]:
    log_file = tmp_path / "worker.log"
    variables = {
        **os.environ,
        "HOLDFAST_DATABASE_URL": inbox.url,
        witness.VARIABLE: str(tmp_path / "witness"),
        "PYTHONPATH": str(ROOT),
    }
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR], cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    worker = Worker(process, log_file)
    yield worker
    worker.end()
    print(worker.log)


async def test_every_job_needs_a_wake_up_and_gets_one(inbox: Inbox, flags: Flags, sleepers: Worker) -> None:
    wait_until(lambda: len(inbox.workers()) == 2 and flags.count("asleep") == 1)
    jobs = []
    for _ in range(20):
        jobs.append(inbox.enqueue("quick"))
        inbox.wait(jobs[-1])
    took = inbox.rows("select extract(epoch from claimed_at - available_at)::float8 * 1000 as ms from holdfast.archive")
    print(f"median pick-up {statistics.median(row['ms'] for row in took):.1f} ms")
    # One process stands still: the other takes its place.
    os.kill(sleepers.children[0], signal.SIGSTOP)
    for _ in range(4):
        inbox.wait(inbox.enqueue("quick"))
    os.kill(sleepers.children[0], signal.SIGCONT)
    inbox.check_promises()
    assert sleepers.drain() == 0
    assert flags.count("asleep") == flags.count("awake") == 0


def test_the_variable_switches_it_off(fleet: Fleet) -> None:
    fleet.start(environment={"HOLDFAST_WORKER_NOTIFY": "0"})
    fleet.inbox.wait(fleet.inbox.enqueue("quick"))
    listeners = "select count(*) from pg_stat_activity where application_name = 'holdfast listen' and datname = %s"
    name = fleet.inbox.one("select current_database()")
    wait_until(lambda: bool(fleet.inbox.one("select count(*) = 1 from holdfast.chores where name = 'members'")))
    assert fleet.inbox.one(listeners, name) == 0
    fleet.start()
    wait_until(lambda: fleet.inbox.one(listeners, name) == 1)
