"""Wake-ups through a supervisor to its processes, which would not look again by themselves for an hour."""

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.apps import witness
from tests.apps.effects import sleep_async
from tests.support.stopwatch import taken_between
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Fleet, Inbox, Worker
from tests.wake.conftest import Flags

from holdfast import Holdfast

pytestmark = pytest.mark.direct  # LISTEN itself: there is none behind a pooler

SUPERVISOR = """
import asyncio
from holdfast.loading import load_app, served
from holdfast.worker.settings import WorkerSettings
from holdfast.processes.supervisor import Supervisor

async def main():
    app = "tests.apps.effects:hf"
    settings = WorkerSettings(poll_min=POLL_MIN, poll_max=3600, lease=3, housekeeping=60, concurrency=CONCURRENCY)
    return await Supervisor(served(load_app(app), settings.queues, app), settings, PROCESSES, "INFO").run()

raise SystemExit(asyncio.run(main()))
"""


@contextmanager
def host(
    inbox: Inbox, tmp_path: Path, poll_min: float = 3600, concurrency: int = 2, processes: int = 2
) -> Iterator[Worker]:
    log_file = tmp_path / f"worker-{len(list(tmp_path.glob('worker-*')))}.log"
    program = SUPERVISOR.replace("POLL_MIN", str(poll_min)).replace("CONCURRENCY", str(concurrency))
    variables = {
        **os.environ,
        "HOLDFAST_DATABASE_URL": inbox.url,
        witness.VARIABLE: str(tmp_path / "witness"),
        "PYTHONPATH": str(ROOT),
    }
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program.replace("PROCESSES", str(processes))],
            cwd=ROOT,
            env=variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    worker = Worker(process, log_file)
    try:
        yield worker
    finally:
        worker.end()
        print(worker.log)


@pytest.fixture
def sleepers(inbox: Inbox, tmp_path: Path) -> Iterator[Worker]:
    with host(inbox, tmp_path) as worker:
        yield worker


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


async def test_a_process_whose_loop_is_blocked_keeps_no_wake_up(inbox: Inbox, flags: Flags, sleepers: Worker) -> None:
    # It has room and seems to sleep, and every second wake-up is for it.
    wait_until(lambda: len(inbox.workers()) == 2 and flags.count("asleep") == 1)
    blocked = inbox.enqueue("block_loop", seconds=120)
    wait_until(lambda: inbox.count([blocked], "processing") == 1)
    for _ in range(6):
        inbox.wait(inbox.enqueue("quick"))
    assert inbox.count([blocked], "processing") == 1


async def test_no_call_is_lost_at_any_pace(inbox: Inbox, flags: Flags, tmp_path: Path) -> None:
    # Two hosts that fall asleep, wake and stay awake, and would sleep for an hour if one call went astray.
    chance = random.Random(8)
    with host(inbox, tmp_path, poll_min=0.005), host(inbox, tmp_path, poll_min=0.005):
        wait_until(lambda: len(inbox.workers()) == 4 and flags.count("asleep") == 2)
        hf = Holdfast(inbox.url)
        quick = hf.task(name="quick")(nothing)
        for _ in range(60):
            pause = chance.choice([0, 0.002, 0.01, 0.03, 0.06, 0.15])
            jobs = []
            for _ in range(chance.randint(1, 8)):
                await asyncio.sleep(pause * chance.uniform(0.5, 1.5))
                jobs.append((await quick.enqueue()).id)
            await asyncio.to_thread(inbox.wait, jobs, seconds=5)
        await hf.close()


async def nothing() -> None:
    pass


async def test_four_jobs_on_four_sleeping_workers_of_one_hand_start_together(
    inbox: Inbox, flags: Flags, tmp_path: Path
) -> None:
    with host(inbox, tmp_path, concurrency=1, processes=4):
        wait_until(lambda: len(inbox.workers()) == 4 and flags.count("asleep") == 1)
        hf = Holdfast(inbox.url)
        nap = hf.task(name="sleep_async")(sleep_async._definition.function)
        spread = "select min(available_at) as first, max(claimed_at) as last from holdfast.archive"
        took = []
        for how in ("many", "each") * 2:
            await asyncio.sleep(0.3)
            if how == "many":
                jobs = await nap.enqueue_many([{"seconds": 0.8}] * 4)
            else:
                jobs = await asyncio.gather(*(nap.enqueue(seconds=0.8) for _ in range(4)))
            inbox.wait([job.id for job in jobs])
            (row,) = inbox.rows(spread)
            took.append(taken_between(row["first"], row["last"]))
            inbox.rows("truncate holdfast.archive")
        await hf.close()
    said = "; ".join(map(str, took))
    print(f"the last of four started after {said}")
    assert statistics.median(taken.own for taken in took) < 0.7, f"one after the other, it would be 2.4 s: {said}"


def test_the_variable_switches_it_off(fleet: Fleet) -> None:
    fleet.start(environment={"HOLDFAST_WORKER_NOTIFY": "0"})
    fleet.inbox.wait(fleet.inbox.enqueue("quick"))
    listeners = "select count(*) from pg_stat_activity where application_name = 'holdfast listen' and datname = %s"
    name = fleet.inbox.one("select current_database()")
    wait_until(lambda: bool(fleet.inbox.one("select count(*) = 1 from holdfast.chores where name = 'members'")))
    assert fleet.inbox.one(listeners, name) == 0
    fleet.start()
    wait_until(lambda: fleet.inbox.one(listeners, name) == 1)
