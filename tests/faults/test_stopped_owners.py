"""An owner that falls silent inside a transaction: whoever takes its row over ends its session first."""

import os
import signal
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.pooler import wants_pooler
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker

pytestmark = pytest.mark.faults

LEASE = 2.5
RECOVERED = LEASE + 0.5 + 15
"""Seconds: a lease, a round of housekeeping, and some for a machine that is busy."""
APP = "tests.apps.locks:hf"


@pytest.fixture(autouse=True)
def stock(fleet: Fleet) -> None:
    fleet.inbox.rows("create table stock as select 100 as left_over")


def start(fleet: Fleet, **options: Any) -> Worker:
    return fleet.start(app=APP, lease=LEASE, **options)


def stop(worker: Worker, whole_host: bool) -> list[int]:
    pids = [*worker.children, *([worker.pid] if whole_host else [])]
    for pid in reversed(pids):
        os.kill(pid, signal.SIGSTOP)
    return pids


def wake(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def check_taken_over(fleet: Fleet, job: UUID) -> None:
    """It ended elsewhere, in time, and the only attempt that it lost is the silent one's."""
    fleet.inbox.wait(job, seconds=RECOVERED)
    row = fleet.inbox.job(job)
    assert [error["error"] for error in row["errors"]] == ["LeaseExpired"]
    assert (row["attempts"], row["lease_generation"]) == (2, 2)


@pytest.mark.parametrize("whole_host", [False, True], ids=["process", "host"])
def test_a_stopped_owner_keeps_no_locks_and_writes_nothing_when_it_wakes(
    fleet: Fleet, tmp_path: Path, whole_host: bool
) -> None:
    gate = tmp_path / "gate"
    first = start(fleet)
    job = fleet.inbox.enqueue("sell", gate=str(gate))
    fleet.wait_seen(job, "locked")
    stopped = stop(first, whole_host)
    start(fleet)
    other = fleet.inbox.enqueue("sell")  # which needs the same row of `stock`
    check_taken_over(fleet, job)
    fleet.inbox.wait(other)
    assert fleet.inbox.job(other)["attempts"] == 1, "nor did anybody else lose one"
    before = fleet.inbox.job(job)
    gate.touch()
    wake(stopped)
    wait_until(lambda: "LeaseLost" in first.log)
    assert fleet.inbox.job(job) == before
    assert fleet.inbox.effects(job) == 1
    assert fleet.inbox.one("select left_over from stock") == 98


def test_an_owner_stopped_before_its_commit_is_taken_over(fleet: Fleet, tmp_path: Path) -> None:
    # Its row is locked as well: it has completed, in a transaction that does not end.
    marker = tmp_path / "stopped"
    first = start(fleet, probes=f"tx.before_commit=stop@{marker}")
    job = fleet.inbox.enqueue("sell")
    wait_until(marker.exists)
    start(fleet)
    check_taken_over(fleet, job)
    wake(first.children)
    wait_until(lambda: "LeaseLost" in first.log)
    assert fleet.inbox.effects(job) == 1
    fleet.inbox.check_promises()


@pytest.mark.parametrize("probe", ["once.before", "once.after"])
def test_an_owner_stopped_inside_once_has_no_transaction_open(fleet: Fleet, tmp_path: Path, probe: str) -> None:
    marker = tmp_path / "stopped"
    first = start(fleet, probes=f"{probe}=stop@{marker}")
    job = fleet.inbox.enqueue("mail")
    wait_until(marker.exists)
    if not wants_pooler():  # behind one, the process may have been stopped inside a claim as well
        idle = (  # of the stopped process: its supervisor still keeps house
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and state like 'idle in transaction%%' and application_name <> 'holdfast housekeeping'"
        )
        assert fleet.inbox.one(idle) == 0
    start(fleet)
    check_taken_over(fleet, job)
    wake(first.children)
    wait_until(lambda: "LeaseLost" in first.log)
    assert len(fleet.seen(job, "effect")) == (2 if probe == "once.before" else 1)


def test_the_locks_of_a_killed_process_go_at_once_although_its_session_is_busy(fleet: Fleet) -> None:
    # The server notices that a client is gone when it has something to tell it; this one's statement takes a minute.
    worker = fleet.start(app=APP, lease=300)
    job = fleet.inbox.enqueue("doze")
    fleet.wait_seen(job, "locked")
    wait_until(lambda: bool(fleet.inbox.rows("select 1 from pg_stat_activity where query like 'select pg_sleep%%'")))
    os.kill(worker.child, signal.SIGKILL)
    fleet.inbox.wait(job)
    assert [error["error"] for error in fleet.inbox.job(job)["errors"]] == ["WorkerDied"]
    fleet.inbox.check_promises()


def test_a_live_handler_may_idle_in_its_transaction_for_longer_than_its_lease(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    start(fleet)
    start(fleet)  # another, eager to sweep
    job = fleet.inbox.enqueue("sell", gate=str(gate))
    fleet.wait_seen(job, "locked")
    time.sleep(2 * LEASE)  # the idling itself
    gate.touch()
    fleet.inbox.wait(job)
    row = fleet.inbox.job(job)
    assert (row["attempts"], row["errors"]) == (1, None)
    assert fleet.inbox.effects(job) == 1


def test_when_nobody_is_left_to_sweep_the_server_ends_the_session_after_timeout_and_grace(
    fleet: Fleet, tmp_path: Path
) -> None:
    worker = start(fleet, options=["--grace", "500ms"])
    job = fleet.inbox.enqueue("short", gate=str(tmp_path / "gate"))
    fleet.wait_seen(job, "locked")
    (session,) = fleet.inbox.rows(
        "select pid, xact_start from pg_stat_activity where application_name = %s", f"holdfast job {job} 1"
    )
    stop(worker, whole_host=True)
    there = "select count(*) = 0 from pg_stat_activity where pid = %s and xact_start = %s"
    wait_until(lambda: bool(fleet.inbox.one(there, session["pid"], session["xact_start"])), 2 + 15)
