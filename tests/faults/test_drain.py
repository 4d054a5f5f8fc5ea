"""SIGTERM: stop claiming, finish, hand back what did not start, write every ending, leave."""

import os
import signal
from pathlib import Path

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Inbox

from holdfast.embedded import EmbeddedPostgres

pytestmark = pytest.mark.faults


def nothing_in_flight(inbox: Inbox) -> bool:
    return bool(inbox.one("select count(*) = 0 from holdfast.inbox where status = 'processing'"))


def test_running_jobs_finish_and_unstarted_ones_go_back_with_their_attempt(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    fleet.inbox.enqueue_many("quick", 200)  # teach the worker to claim ahead
    held = fleet.inbox.enqueue("hold", gate=str(gate))
    behind = fleet.inbox.enqueue_many("effect", 20)
    worker = fleet.start(lease=300, concurrency=1)
    fleet.wait_seen(held, "started")
    wait_until(lambda: fleet.inbox.count(behind, "processing") > 0)
    worker.send(signal.SIGTERM)
    fleet.inbox.wait(behind, "pending")  # while the other still runs
    assert fleet.inbox.status(held) == "processing"
    assert list(fleet.inbox.workers().values()) == ["draining"]
    gate.touch()
    assert worker.wait() == 0
    assert fleet.inbox.status(held) == "completed"
    assert nothing_in_flight(fleet.inbox)
    assert list(fleet.inbox.workers().values()) == ["dead"]
    rows = fleet.inbox.rows("select attempts, lease_generation from holdfast.inbox")
    assert {row["attempts"] for row in rows} == {0}
    assert len(rows) == 20


def test_the_whole_group_gets_the_signal_as_from_a_terminal_or_an_init_system(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = fleet.start(lease=300, processes=2)
    fleet.wait_seen(job, "started")
    os.killpg(worker.pid, signal.SIGTERM)
    wait_until(lambda: set(fleet.inbox.workers().values()) <= {"draining", "dead"})
    gate.touch()
    assert worker.wait() == 0
    assert fleet.inbox.status(job) == "completed"
    assert set(fleet.inbox.workers().values()) == {"dead"}


def test_a_long_drain_keeps_its_leases(fleet: Fleet) -> None:
    # The heartbeat of a drain is the last thing to stop: lease 2 s, a drain of more than two of them.
    job = fleet.inbox.enqueue("sleep_async", seconds=6)
    fleet.start(lease=2)
    fleet.start(lease=2)  # another, who would sweep what was let go
    fleet.wait_seen(job, "started")
    owner = next(w for w in fleet.workers if w.child == fleet.seen(job, "started")[0].pid)
    assert owner.drain() == 0
    assert [seen.what for seen in fleet.seen(job)] == ["started", "finished"]
    assert fleet.inbox.job(job)["attempts"] == 1


def test_a_second_signal_stops_now(fleet: Fleet) -> None:
    # One that can be cancelled, and one in a thread that hears nothing: both go back, at no cost of an attempt.
    job = fleet.inbox.enqueue("cancel_me")
    thread = fleet.inbox.enqueue("sleep_sync", seconds=600)
    worker = fleet.start(lease=300)
    fleet.wait_seen(job, "started")
    fleet.wait_seen(thread, "started")
    worker.send(signal.SIGTERM)
    wait_until(lambda: list(fleet.inbox.workers().values()) == ["draining"])
    worker.send(signal.SIGTERM)
    assert worker.wait(25) == 0
    assert "2 running jobs are interrupted and handed back: they run again from the start" in worker.log
    assert fleet.seen(job, "cancelled")
    for id in (job, thread):
        row = fleet.inbox.job(id)
        assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0)
    assert nothing_in_flight(fleet.inbox)
    assert list(fleet.inbox.workers().values()) == ["dead"]


def test_handlers_that_outlast_the_drain_go_back(fleet: Fleet) -> None:
    job = fleet.inbox.enqueue("cancel_me")
    thread = fleet.inbox.enqueue("sleep_sync", seconds=600)
    worker = fleet.start(lease=300, options=["--drain", "0.2"])
    fleet.wait_seen(job, "started")
    fleet.wait_seen(thread, "started")
    assert worker.drain(25) == 0
    assert [fleet.inbox.status(id) for id in (job, thread)] == ["pending", "pending"]
    assert nothing_in_flight(fleet.inbox)


def test_a_signal_while_it_starts(fleet: Fleet) -> None:
    worker = fleet.launch()
    wait_until(lambda: bool(worker.children))  # the supervisor listens, its process is still importing
    assert worker.drain() == 0, worker.log
    assert "Traceback" not in worker.log
    assert "alive" not in fleet.inbox.workers().values()

    worker = fleet.launch()
    wait_until(lambda: bool(worker.children))
    os.killpg(worker.pid, signal.SIGTERM)
    assert worker.wait() == 0, worker.log


def test_a_signal_while_the_server_cannot_be_reached(fleet: Fleet) -> None:
    worker = fleet.launch(url="postgresql://nobody@127.0.0.1:1/nothing")
    wait_until(lambda: "cannot reach the server" in worker.log)
    assert worker.drain() == 0, worker.log
    assert "Traceback" not in worker.log


def test_work_under_load_survives_a_rolling_restart(fleet: Fleet) -> None:
    # Requirement 72: no lease expires, nothing is lost, nothing runs twice.
    jobs = fleet.inbox.enqueue_many("effect", 3000)
    first = fleet.start(lease=60)
    second = fleet.start(lease=60)
    for old in (first, second):
        old.send(signal.SIGTERM)
        fleet.start(lease=60)
        assert old.wait() == 0
    fleet.inbox.wait(jobs)
    assert len(fleet.seen(what="effect")) == len(jobs)
    fleet.inbox.check_promises()
    assert all(row["attempts"] == 1 for row in fleet.inbox.rows("select attempts from holdfast.archive"))


@pytest.mark.slow
def test_a_drain_while_the_server_is_away_ends_and_the_leases_run_out(
    own_postgres: EmbeddedPostgres, own_fleet: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = own_fleet.inbox.enqueue("hold", gate=str(gate))
    worker = own_fleet.start(lease=3)
    own_fleet.wait_seen(job, "started")
    own_postgres.kill()
    gate.touch()
    own_fleet.wait_seen(job, "finished")
    assert worker.drain(40) == 0, worker.log
    own_postgres.start()
    own_fleet.start(lease=3)
    own_fleet.inbox.wait(job)
    own_fleet.inbox.check_promises()
