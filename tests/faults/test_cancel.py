"""Cancel: a waiting job ends at once, a running one is told."""

import asyncio
import os
import signal
from uuid import UUID

import pytest
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

from holdfast import Holdfast, NotFound

pytestmark = pytest.mark.faults


def cancel(fleet: Fleet, *jobs: UUID) -> list[str]:
    async def ask() -> list[str]:
        hf = Holdfast(fleet.inbox.url)
        try:
            return [await hf.cancel(job, "withdrawn") for job in jobs]
        finally:
            await hf.close()

    return asyncio.run(ask())


def test_a_pending_job_ends_at_once_and_never_runs(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("effect")
    assert cancel(fleet, job) == ["cancelled"]
    row = fleet.inbox.job(job)
    assert (row["status"], row["last_error"], row["attempts"]) == ("cancelled", "withdrawn", 0)
    fleet.start()
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 10))
    assert not fleet.seen(job)
    with pytest.raises(NotFound):
        cancel(fleet, job)


def test_running_handlers_are_cancelled_or_told_within_two_seconds(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("cancel_me")
    thread = fleet.inbox.enqueue("cancel_me_sync")
    fleet.start(lease=90)
    for id in (job, thread):
        fleet.wait_seen(id, "started")
    watch = Stopwatch()
    assert cancel(fleet, job, thread) == ["processing", "processing"]
    fleet.wait_seen(job, "cancelled")
    fleet.wait_seen(thread, "told")
    watch.check(2, "a cancellation")
    fleet.inbox.wait([job, thread], "cancelled")
    for id in (job, thread):
        row = fleet.inbox.job(id)
        assert row["attempts"] == 1
        assert row["cancel_requested_at"] is not None
    fleet.inbox.check_promises()


def test_a_cancelled_job_whose_worker_dies_is_not_started_again(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("cancel_me_sync")
    worker = fleet.start(lease=300)
    fleet.wait_seen(job, "started")
    worker.end()
    assert cancel(fleet, job) == ["processing"]
    fleet.inbox.rows("update holdfast.inbox set lease_expires_at = now() where id = %s", job)
    fleet.start(lease=2)
    fleet.inbox.wait(job, "cancelled")
    assert len(fleet.seen(job, "started")) == 1


def test_a_job_cancelled_in_its_last_attempt_whose_process_dies_ends_as_cancelled(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("hold_sync", max_attempts=1, idempotency_key="k", gate=str(fleet.folder / "gate"))
    worker = fleet.start(lease=90)
    fleet.wait_seen(job, "started")
    assert cancel(fleet, job) == ["processing"]
    os.kill(worker.child, signal.SIGKILL)
    wait_until(lambda: fleet.inbox.status(job) != "processing")
    row = fleet.inbox.job(job)
    assert row["status"] == "cancelled"
    assert row["last_error"].startswith(
        "cancelled while it ran; WorkerDied: the worker process ended by signal SIGKILL"
    )
    wait_until(lambda: not fleet.inbox.rows("select id from holdfast.inbox"))  # it is archived
    assert fleet.inbox.one("select expires_at > now() from holdfast.dedupe where key = 'k'")
    fleet.inbox.check_promises()


def test_cancel_against_completion_has_one_winner(fleet: Fleet) -> None:
    fleet.start(lease=60, concurrency=20)
    jobs = fleet.inbox.enqueue_many("effect", 400)

    async def race() -> list[str]:
        hf = Holdfast(fleet.inbox.url)

        async def one(job: UUID) -> str:
            try:
                return await hf.cancel(job, "withdrawn")
            except NotFound:
                return "ended"

        try:
            return await asyncio.gather(*(one(job) for job in jobs))
        finally:
            await hf.close()

    answers = asyncio.run(race())
    wait_until(lambda: fleet.inbox.count(jobs, "completed") + fleet.inbox.count(jobs, "cancelled") == len(jobs))
    ran = [entry.job for entry in fleet.seen(what="effect")]
    assert len(ran) == len(set(ran)), "one ran twice"
    for job, answer in zip(jobs, answers, strict=True):
        match answer:
            case "cancelled":  # it was waiting
                assert fleet.inbox.status(job) == "cancelled"
                assert job not in ran
            case "ended":  # it had completed
                assert fleet.inbox.status(job) == "completed"
                assert job in ran
    fleet.inbox.check_promises()
