"""What ran in a process that died runs in isolation next: beside all other work, and without company."""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from tests.support.pooler import direct
from tests.support.stopwatch import Taken, taken_between
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker

pytestmark = pytest.mark.faults


@contextmanager
def quick_jobs_arrive(fleet: Fleet, every: float = 0.03) -> Iterator[list[UUID]]:
    """One after the other, as long as the block runs."""
    ids: list[UUID] = []
    over = threading.Event()

    def produce() -> None:
        with psycopg.connect(direct(fleet.inbox.url), autocommit=True) as connection:
            while not over.wait(every):
                (id,) = connection.execute("select holdfast.enqueue('quick', '{}'::jsonb)").fetchone() or ()
                ids.append(id)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        yield ids
    finally:
        over.set()
        producer.join()


def slowest(fleet: Fleet, jobs: list[UUID]) -> Taken:
    """From enqueue to end, for the slowest of these that ran once."""
    statement = "select created_at, finished_at from holdfast.jobs where id = any (%s) and attempts = 1"
    took = [taken_between(row["created_at"], row["finished_at"]) for row in fleet.inbox.rows(statement, jobs)]
    return max(took, key=lambda taken: taken.own)


def test_one_kill_does_not_hold_up_the_fleet(fleet: Fleet) -> None:
    long = [fleet.inbox.enqueue("endless_at_first", seconds=3) for _ in range(8)]
    victim = fleet.start(lease=60, concurrency=10)
    for job in long:
        fleet.wait_seen(job, "started")
    fleet.start(lease=60, concurrency=10)
    with quick_jobs_arrive(fleet) as quick:
        fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 1))
        os.kill(victim.child, signal.SIGKILL)
        fleet.inbox.wait(long, seconds=20)  # one after the other they would take 24
    fleet.inbox.wait(quick)
    took = slowest(fleet, quick)
    assert took.own < 2, f"they wait for none of the long ones: {took}"
    assert all(len(fleet.inbox.job(job)["errors"]) == 1 for job in long)


def into_isolation(fleet: Fleet, worker: Worker, *jobs: UUID) -> None:
    """Kill the process in which they run; on return they run again."""
    for job in jobs:
        fleet.wait_seen(job, "started")
    os.kill(worker.child, signal.SIGKILL)
    for job in jobs:
        fleet.wait_seen(job, "started", times=2)


def test_an_isolation_process_ends_when_there_is_nothing_left_for_it(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = fleet.start(lease=60)
    into_isolation(fleet, worker, job)
    (isolation,) = worker.isolation
    assert fleet.seen(job, "started")[1].pid == isolation
    gate.touch()
    fleet.inbox.wait(job)
    wait_until(lambda: not worker.isolation)
    name = next(name for name in fleet.inbox.workers() if name.split("-")[-2] == str(isolation))
    wait_until(lambda: fleet.inbox.workers()[name] == "dead")
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 10))
    assert worker.log.count("an isolation process") == 1
    assert worker.drain() == 0


def test_a_drain_waits_for_what_runs_in_isolation(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = fleet.start(lease=60)
    into_isolation(fleet, worker, job)
    worker.send(signal.SIGTERM)
    wait_until(lambda: "alive" not in fleet.inbox.workers().values())
    assert fleet.inbox.status(job) == "processing"
    gate.touch()
    assert worker.wait() == 0
    assert fleet.inbox.status(job) == "completed"
    assert set(fleet.inbox.workers().values()) == {"dead"}


def test_a_second_signal_stops_what_runs_in_isolation(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("cancel_me")
    worker = fleet.start(lease=60)
    into_isolation(fleet, worker, job)
    worker.send(signal.SIGTERM)
    wait_until(lambda: "alive" not in fleet.inbox.workers().values())
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    row = fleet.inbox.job(job)
    assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 1, 1)


def test_suspects_that_nobody_else_runs_are_taken_over(fleet: Fleet, tmp_path: Path) -> None:
    # Those of a host that is gone: another one's supervisor sees them, and its ordinary process leaves them alone.
    gate = tmp_path / "gate"
    fleet.inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, crashes, attempts)"
        " select 'k', 1, jsonb_build_object('type', 'hold', 'gate', %s::text), 1, 1",
        str(gate),
    )
    job = fleet.inbox.one("select id from holdfast.inbox")
    worker = fleet.start(lease=60)
    fleet.wait_seen(job, "started")
    assert [seen.pid for seen in fleet.seen(job, "started")] == worker.isolation
    gate.touch()
    fleet.inbox.wait(job)


def test_a_supervisor_that_cannot_start_processes_tries_again(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = fleet.start(lease=60)
    into_isolation(fleet, worker, job)
    limits = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (5, limits[1]))  # all of these are taken
    for pid in (worker.child, *worker.isolation):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "a worker process could not be started" in worker.log)
    wait_until(lambda: "an isolation process could not be started" in worker.log)
    assert worker.process.poll() is None
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, limits)
    fleet.wait_seen(job, "started", times=3)
    gate.touch()
    fleet.inbox.wait([job, *fleet.inbox.enqueue_many("quick", 10)])
    assert worker.drain() == 0


def test_a_suspect_that_blocks_its_process_does_not_hold_up_the_other_suspects(fleet: Fleet) -> None:
    # Nobody in its process can say that others wait.
    blocking = fleet.inbox.enqueue("block_loop", seconds=600)
    worker = fleet.start(lease=60)
    into_isolation(fleet, worker, blocking)
    other = fleet.inbox.enqueue("sleep_async", seconds=1)
    into_isolation(fleet, worker, other)
    fleet.inbox.wait(other)
    assert fleet.inbox.status(blocking) == "processing"
