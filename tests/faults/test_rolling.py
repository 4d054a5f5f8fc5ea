"""Requirement 72: the whole fleet is replaced under load, worker by worker, and nobody's lease runs out."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker

pytestmark = [pytest.mark.faults, pytest.mark.slow]

LEASE = 15.0
"""Seconds. What is left behind by one that goes shows in the end, when this has run out."""
SIZE = 4
CONCURRENCY = 4


@contextmanager
def steady_load(fleet: Fleet) -> Iterator[None]:
    """A producer that keeps a few hundred jobs waiting: so every worker holds some that have not started."""
    over = threading.Event()

    def produce() -> None:
        while not over.wait(0.02):
            if fleet.inbox.one("select count(*) from holdfast.inbox where status = 'pending'") < 300:
                fleet.inbox.enqueue_many("effect", 100)
                fleet.inbox.enqueue_many("sleep_async", 100, seconds=0.1)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()


def finished(fleet: Fleet) -> int:
    return int(fleet.inbox.one("select count(*) from holdfast.archive"))


def drain_when_full(fleet: Fleet, worker: Worker) -> None:
    """While it holds more slow jobs than it can have started: what is left of them goes back."""
    held = (
        "select count(*) from holdfast.inbox "
        "where status = 'processing' and claimed_by = any (%s) and kind = 'sleep_async'"
    )
    wait_until(lambda: fleet.inbox.one(held, fleet.names(worker)) > 2 * CONCURRENCY)
    worker.send(signal.SIGTERM)


def replace(fleet: Fleet, old: Worker, *, first: bool) -> Worker:
    """Start the new one before, or while, the old one drains."""
    if first:
        new = fleet.start(lease=LEASE, concurrency=CONCURRENCY)
        drain_when_full(fleet, old)
    else:
        drain_when_full(fleet, old)
        new = fleet.start(lease=LEASE, concurrency=CONCURRENCY)
    assert old.wait() == 0, old.log
    before = finished(fleet)
    wait_until(lambda: finished(fleet) > before + 100)  # under load all the time
    return new


def test_a_fleet_is_replaced_one_by_one_under_load(fleet: Fleet) -> None:
    olds = [fleet.launch(lease=LEASE, concurrency=CONCURRENCY) for _ in range(SIZE)]
    for old in olds:
        fleet.wait_ready(old)
    with steady_load(fleet):
        wait_until(lambda: finished(fleet) > 500)
        news = [replace(fleet, old, first=number % 2 == 0) for number, old in enumerate(olds)]
    fleet.inbox.wait(fleet.inbox.enqueued, seconds=100)
    for new in news:
        assert new.drain() == 0, new.log

    fleet.inbox.check_promises()
    rows = fleet.inbox.rows("select id, kind, attempts, lease_generation as generation, errors from holdfast.archive")
    assert len(rows) == len(fleet.inbox.enqueued)  # nothing lost
    assert [row for row in rows if row["errors"]] == []  # no LeaseExpired, nor anything else
    assert {row["attempts"] for row in rows} == {1}
    assert any(row["generation"] > 1 for row in rows), "nothing was handed back: the test shows nothing"
    assert all("swept" not in worker.log for worker in fleet.workers)
    assert set(fleet.inbox.workers().values()) == {"dead"}
    done = {"effect": "effect", "sleep_async": "finished"}
    runs = Counter((seen.job, seen.what) for seen in fleet.seen())
    assert {runs[row["id"], done[row["kind"]]] for row in rows} == {1}  # every job once
