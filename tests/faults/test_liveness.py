"""What happens to a worker, and what follows: each row of the table in `holdfast.worker`, made for real."""

import os
import signal
from pathlib import Path

import pytest
from tests.support.stopwatch import undisturbed
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.faults

RECOVERY = 2 + 10.0
"""Seconds: a lease of two or less, short backoffs, and 10. Promised are 13, but these workers sweep more often."""


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_killed_worker_is_missed_at_once(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = fleet.start(lease=300)  # nobody waits for this lease
    fleet.wait_seen(job, "started")
    first = worker.child
    os.kill(first, signal.SIGKILL)
    fleet.wait_seen(job, "started", times=2, seconds=RECOVERY)
    # While it is held there: an isolation process ends when it has nothing to do.
    (isolation,) = worker.isolation
    assert [seen.pid for seen in fleet.seen(job)] == [first, isolation]
    wait_until(lambda: sorted(fleet.inbox.workers().values()) == ["alive", "alive", "dead"])
    assert worker.child != first, "its place is filled again"
    gate.touch()
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert fleet.inbox.job(job)["attempts"] == 2
    assert "WorkerDied" in fleet.inbox.job(job)["errors"][0]["error"]
    assert {seen.pid for seen in fleet.seen(job)} == {first, isolation}
    fleet.inbox.check_promises()


@pytest.mark.slow
def test_what_keeps_a_process_busy_past_its_lease_runs_exactly_once(fleet: Fleet) -> None:
    # The loop blocked for three leases, the GIL held for three, and sleeps of ten leases, with another worker eager.
    lease = 1.0

    def story() -> None:
        fleet.inbox.enqueued.clear()
        fleet.inbox.rows("truncate holdfast.inbox")  # what is left of a story that was disturbed
        jobs = [
            fleet.inbox.enqueue("block_loop", seconds=3 * lease),
            fleet.inbox.enqueue("hold_gil", seconds=3 * lease),
            fleet.inbox.enqueue("sleep_async", seconds=10 * lease),
            fleet.inbox.enqueue("sleep_sync", seconds=10 * lease),
        ]
        workers = [fleet.start(lease=lease) for _ in range(2)]
        try:
            fleet.inbox.wait(jobs, seconds=10 * lease + 10)
        finally:
            for worker in workers:
                worker.end()
        for job in jobs:
            assert [seen.what for seen in fleet.seen(job)] == ["started", "finished"]
            assert fleet.inbox.job(job)["attempts"] == 1

    undisturbed(story, spare=lease / 3)  # leases are renewed every third of one, and one is lost when two are left out
    fleet.inbox.check_promises()


def test_a_stopped_worker_loses_its_jobs_and_changes_nothing_when_it_wakes(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    completes = fleet.inbox.enqueue("hold_sync", gate=str(gate))
    fails = fleet.inbox.enqueue("hold_sync", gate=str(gate), fail=True, max_attempts=2)
    first = fleet.start(lease=2)
    for job in (completes, fails):
        fleet.wait_seen(job, "started")
    stopped = first.child
    os.kill(stopped, signal.SIGSTOP)
    fleet.start(lease=2)
    wait_until(lambda: fleet.inbox.job(completes)["lease_generation"] == 2, RECOVERY)
    gate.touch()
    fleet.inbox.wait(completes)
    fleet.inbox.wait(fails, "dead_letter")
    before = [fleet.inbox.job(job) for job in (completes, fails)]
    # The stopped handlers have not seen the gate yet; when they do, their endings are refused.
    assert all(stopped != seen.pid for seen in fleet.seen(what="finished"))
    os.kill(stopped, signal.SIGCONT)
    wait_until(lambda: sum(seen.pid == stopped for seen in fleet.seen(what="finished")) == 2)
    wait_until(lambda: first.log.count("LeaseLost") >= 2)
    assert [fleet.inbox.job(job) for job in (completes, fails)] == before
    assert before[0]["lease_generation"] == before[1]["lease_generation"] == 2
    # It goes on to work under new generations.
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 50))
    fleet.inbox.check_promises()


def test_a_handler_is_told_that_its_lease_was_lost(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("lost_async")
    worker = fleet.start(lease=1)
    fleet.wait_seen(job, "started")
    # Somebody else takes the row, as a sweep and another claim would.
    fleet.inbox.rows(
        "update holdfast.inbox set claimed_by = 'another', lease_generation = lease_generation + 1,"
        " lease_expires_at = now() + '1 hour' where id = %s",
        job,
    )
    fleet.wait_seen(job, "LeaseLost", seconds=RECOVERY)
    wait_until(lambda: "LeaseLost" in worker.log)
    row = fleet.inbox.job(job)
    assert (row["status"], row["claimed_by"], row["lease_generation"]) == ("processing", "another", 2)


def test_a_killed_supervisor_takes_its_workers_along_and_others_recover(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    first = fleet.start(lease=1, processes=2)
    fleet.wait_seen(job, "started")
    children = first.children
    assert len(children) == 2
    first.send(signal.SIGKILL)
    first.wait()
    wait_until(lambda: all(gone(pid) for pid in children))
    gate.touch()
    fleet.start(lease=1)
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert fleet.inbox.job(job)["errors"][0]["error"] == "LeaseExpired"
    fleet.inbox.check_promises()


def test_workers_of_a_stopped_supervisor_stop_claiming_and_give_up_their_jobs(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("lost_async")
    worker = fleet.start(lease=1)
    fleet.wait_seen(job, "started")
    worker.send(signal.SIGSTOP)
    fleet.wait_seen(job, "LeaseLost", seconds=RECOVERY)
    # By now the keeper is late, so nothing new is claimed, although hands are free.
    later = fleet.inbox.enqueue("effect")
    looks = fleet.inbox.one("select clock_timestamp()")
    wait_until(lambda: fleet.inbox.one("select clock_timestamp() > %s::timestamptz + interval '1 second'", looks))
    assert fleet.inbox.status(later) == "pending"
    assert "LeaseLost" in worker.log
    worker.send(signal.SIGCONT)
    fleet.inbox.wait(later)


def test_handlers_over_their_time_are_cancelled_or_told(fleet: Fleet) -> None:
    cancelled = fleet.inbox.enqueue("over_time", max_attempts=1)
    told = fleet.inbox.enqueue("over_time_sync", max_attempts=1)
    worker = fleet.start(lease=60)
    first = worker.child
    fleet.inbox.wait([cancelled, told], "dead_letter")
    assert [seen.what for seen in fleet.seen(cancelled)] == ["started", "cancelled"]
    assert [seen.what for seen in fleet.seen(told)] == ["started", "told"]
    assert all(fleet.inbox.job(job)["errors"][0]["error"] == "Timeout" for job in (cancelled, told))
    assert worker.child == first, "neither costs the process"


def test_a_handler_that_cannot_be_cancelled_costs_its_process_but_not_its_companions(
    fleet: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    deaf = fleet.inbox.enqueue("deaf", max_attempts=2)
    companion = fleet.inbox.enqueue("hold", gate=str(gate), max_attempts=1)
    worker = fleet.start(lease=60, options=["--grace", "0.5"])
    first = worker.child
    fleet.wait_seen(companion, "started")
    wait_until(lambda: gone(first))
    fleet.wait_seen(companion, "started", times=2)  # with one attempt only: it was given back
    gate.touch()
    fleet.inbox.wait(companion)
    assert fleet.inbox.job(companion)["attempts"] == 1
    fleet.inbox.wait(deaf, "dead_letter")
    row = fleet.inbox.job(deaf)
    assert [error["error"] for error in row["errors"]] == ["Timeout", "Timeout"]
    assert len(fleet.seen(deaf, "started")) == 2
    fleet.inbox.check_promises()


def test_a_lease_that_nobody_renews_is_swept_while_its_handler_runs(fleet: Fleet, tmp_path: Path) -> None:
    # Requirement 34: renewal is what keeps a long job alone; without it the job runs twice, and the fence decides.
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold_sync", gate=str(gate))
    first = fleet.start(lease=1)
    fleet.wait_seen(job, "started")
    first.send(signal.SIGSTOP)  # its keeper; the worker process runs on
    fleet.start(lease=1)
    fleet.wait_seen(job, "started", times=2, seconds=RECOVERY)
    gate.touch()
    fleet.inbox.wait(job)
    assert fleet.inbox.job(job)["lease_generation"] == 2
    wait_until(lambda: "LeaseLost" in first.log)
    fleet.inbox.check_promises()
