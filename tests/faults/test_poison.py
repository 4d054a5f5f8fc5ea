"""A job that takes its process down ends as a dead letter, alone."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(("kind", "how"), [("poison", "SIGKILL"), ("poison_exit", "exit code 3")])
def test_a_job_that_kills_its_process_is_a_dead_letter_and_its_companions_are_not(
    fleet: Fleet, kind: str, how: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    companions = [fleet.inbox.enqueue("hold", gate=str(gate), max_attempts=2) for _ in range(3)]
    worker = fleet.start(lease=300)
    for companion in companions:
        fleet.wait_seen(companion, "started")
    poison = fleet.inbox.enqueue(kind, max_attempts=3)
    wait_until(lambda: fleet.inbox.job(companions[0])["crashes"] == 1)
    gate.touch()
    fleet.inbox.wait([*companions, *fleet.inbox.enqueue_many("effect", 20)])
    fleet.inbox.wait(poison, "dead_letter")
    row = fleet.inbox.job(poison)
    assert row["attempts"] == 3 == len(fleet.seen(poison, "started"))
    assert [error["error"] for error in row["errors"]] == ["WorkerDied"] * 3
    assert all(how in error["message"] for error in row["errors"])
    # Only the first crash had company: afterwards the suspects ran in isolation, and the innocent ones finished.
    assert all(fleet.inbox.job(companion)["attempts"] == 2 for companion in companions)
    assert worker.process.poll() is None
    fleet.inbox.check_promises()


def test_poison_without_anyone_to_tell_is_bounded_by_the_sweep(fleet: Fleet) -> None:
    # P7 and requirement 23, with the supervisor dying along each time: attempts are counted at the claim.
    job = fleet.inbox.enqueue("hold", gate="/nonexistent/gate", max_attempts=2)
    for attempt in (1, 2):
        worker = fleet.start(lease=0.6, housekeeping=0.2)
        fleet.wait_seen(job, "started", times=attempt)
        worker.end()
    fleet.start(lease=0.6, housekeeping=0.2)
    fleet.inbox.wait(job, "dead_letter")
    row = fleet.inbox.job(job)
    assert row["claimed_by"] is None
    assert row["lease_expires_at"] is None
    assert "LeaseExpired" in row["last_error"]
    assert len(row["errors"]) == 2
    assert json.dumps(row["payload"], sort_keys=True) == '{"gate": "/nonexistent/gate", "type": "hold"}'
    fleet.inbox.check_promises()


def test_a_suspect_that_nobody_here_can_run_does_not_hold_up_the_others(fleet: Fleet, tmp_path: Path) -> None:
    # It waits for a worker that knows its kind; meanwhile this one keeps its hands full.
    fleet.inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, crashes, attempts)"
        """ values ('k', 1, '{"type": "unknown"}', 1, 1)"""
    )
    gate = tmp_path / "gate"
    held = fleet.inbox.enqueue("hold", gate=str(gate))
    fleet.start(lease=60)
    fleet.wait_seen(held, "started")
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 500), seconds=9)  # going quiet would take ten
    gate.touch()
    fleet.inbox.wait(held)


def test_a_long_job_that_outlived_a_crash_does_not_hold_up_the_others(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    held = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = fleet.start(lease=300)
    fleet.wait_seen(held, "started")
    os.kill(worker.child, signal.SIGKILL)
    fleet.wait_seen(held, "started", times=2)  # in isolation
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 100))
    assert fleet.inbox.status(held) == "processing"
    gate.touch()
    fleet.inbox.wait(held)
