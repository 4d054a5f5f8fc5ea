"""What ran in a process that died runs in isolation next: beside all other work, and without company."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest
from tests.support.pooler import direct
from tests.support.workers import Fleet

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


def slowest(fleet: Fleet, jobs: list[UUID]) -> float:
    """Seconds from enqueue to end of the slowest of these that ran once."""
    statement = """
        select max(extract(epoch from finished_at - created_at))::float8
        from holdfast.jobs where id = any (%s) and attempts = 1
    """
    return float(fleet.inbox.one(statement, jobs))


def test_one_kill_does_not_hold_up_the_fleet(fleet: Fleet) -> None:
    long = [fleet.inbox.enqueue("sleep_async", seconds=3) for _ in range(8)]
    victim = fleet.start(lease=60, concurrency=10)
    for job in long:
        fleet.wait_seen(job, "started")
    fleet.start(lease=60, concurrency=10)
    with quick_jobs_arrive(fleet) as quick:
        fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 1))
        os.kill(victim.child, signal.SIGKILL)
        killed_at = time.monotonic()
        fleet.inbox.wait(long, seconds=40)
        cleared_after = time.monotonic() - killed_at
    fleet.inbox.wait(quick)
    assert slowest(fleet, quick) < 2
    assert all(len(fleet.inbox.job(job)["errors"]) == 1 for job in long)
    assert cleared_after < 15
