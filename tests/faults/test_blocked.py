"""A worker that does not run, because a handler blocks its loop or its process is stopped: others do its work."""

import os
import signal
import time
from collections import Counter

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

from holdfast.ownership.shares import REFRESH

pytestmark = pytest.mark.faults

LEASE = 300.0
"""Nobody waits for this one."""
BLOCKS = 25
"""Seconds for which the handler blocks its loop."""


def count(fleet: Fleet, condition: str, *arguments: object) -> int:
    return int(fleet.inbox.one(f"select count(*) from holdfast.inbox where {condition}", *arguments))


@pytest.mark.parametrize("how", ["blocked", "stopped"])
def test_unstarted_jobs_of_a_worker_that_does_not_run_go_to_others(fleet: Fleet, how: str) -> None:
    worker = fleet.start(lease=LEASE)
    (name,) = fleet.names(worker)
    jobs = fleet.inbox.enqueue_many("sleep_async", 3000, seconds=0.002)
    wait_until(lambda: count(fleet, "claimed_by = %s", name) > 100)  # handlers are quick: rows are claimed ahead
    if how == "stopped":
        os.kill(worker.child, signal.SIGSTOP)
    else:
        fleet.inbox.one("select holdfast.enqueue('block_loop', %s, priority => 0)", f'{{"seconds": {BLOCKS}}}')
        wait_until(lambda: count(fleet, "kind = 'block_loop' and status = 'processing'") == 1)
    began = time.monotonic()
    held = count(fleet, "claimed_by = %s", name)
    other = fleet.start(lease=LEASE, concurrency=20)
    wait_until(lambda: "is not running" in worker.log)
    left = BLOCKS - 1 - (time.monotonic() - began)  # before it goes on and does them itself
    wait_until(lambda: count(fleet, "status = 'pending' or claimed_by <> %s", name) == 0, left)
    started = count(fleet, "claimed_by = %s", name)
    print(f"{how}: {held - started} of {held} jobs went to others, all done after {time.monotonic() - began:.1f} s")
    assert started < held
    if how == "stopped":
        os.kill(worker.child, signal.SIGCONT)
    fleet.inbox.wait(jobs, seconds=60)
    ran = Counter(seen.job for seen in fleet.seen(what="started"))
    assert {ran[job] for job in jobs} == {1}, "each of them ran once"
    assert fleet.inbox.one("select max(attempts) from holdfast.archive") == 1
    assert other.drain() == worker.drain() == 0
    fleet.inbox.check_promises()


@pytest.mark.parametrize("how", ["blocked", "stopped"])
def test_the_buckets_of_a_worker_that_does_not_run_go_to_others(fleet: Fleet, how: str) -> None:
    fleet.inbox.rows("insert into holdfast.queues (name, owned) values ('default', true)")
    worker, other = fleet.start(lease=LEASE), fleet.start(lease=LEASE)
    everybody = "select count(*) = 2 from holdfast.workers where last_seen_at > now() - interval '30 seconds'"
    fleet.inbox.wait(fleet.inbox.enqueue_many("effect", 20))
    time.sleep(REFRESH * 1.2)  # by then both have seen the registry with both of them in it
    if how == "stopped":
        os.kill(worker.child, signal.SIGSTOP)
    else:
        fleet.inbox.one("select holdfast.enqueue('block_loop', %s, queue => 'mine')", f'{{"seconds": {BLOCKS}}}')
        fleet.inbox.rows("update holdfast.inbox set queue = 'default', owned = false where queue = 'mine'")
        wait_until(lambda: bool(fleet.seen(what="started")))
    jobs = fleet.inbox.enqueue_many("effect", 100)
    began = time.monotonic()
    fleet.inbox.wait(jobs, seconds=22)  # on a busy machine; the blocked one would take them later
    print(f"{how}: a hundred jobs of an owned queue were done after {time.monotonic() - began:.1f} s")
    if how == "stopped":
        os.kill(worker.child, signal.SIGCONT)
    wait_until(lambda: bool(fleet.inbox.one(everybody)), 30)
    assert other.drain() == worker.drain() == 0
    fleet.inbox.check_promises()
