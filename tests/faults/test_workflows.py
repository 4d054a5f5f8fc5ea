"""`checkout:9182`, with its worker killed or stopped at every step boundary and inside every step.

The table says which steps may be called twice: those that had run, and whose record was not committed, when the worker
died. A step whose record is committed is never called again. What a step writes through `ctx.tx` is there once, always.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.apps.checkout import TOLD
from tests.support.pooler import direct
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker

from holdfast.embedded import EmbeddedPostgres

pytestmark = pytest.mark.faults

APP = "tests.apps.checkout:hf"
INSTANCE = "checkout:9182"
RESULT = ["reservation of 9182", "91820", "checkout:9182/receipt", "P1"]
STEPS = ["reserve", "charge", "receipt", "shipped", "notify"]
CALLED = ["reserve", "charge", "receipt", "notify"]
LEASE = 1.5
RECOVERY = LEASE + 10
"""Seconds, as in test_liveness.py: a lease, short backoffs, and 10."""


@dataclass(frozen=True, slots=True)
class Point:
    """A probe, when a process comes there for this time."""

    probe: str
    time: int
    repeated: str = ""
    """The steps that may be called twice."""
    about: str = ""
    """The step that the process was about to call: if it is only stopped there, it calls that when it goes on."""

    def __str__(self) -> str:
        return f"{self.probe}#{self.time}"


FIRST_RUN = [
    Point("run.before", 1),
    Point("step.before", 1, about="reserve"),
    Point("step.after", 1, "reserve"),
    Point("record.before", 1, "reserve"),
    Point("record.after", 1),
    Point("step.before", 2, about="charge"),
    Point("step.after", 2, "charge"),
    Point("record.before", 2, "charge"),
    Point("record.after", 2, "charge"),  # in the transaction, which is not committed
    Point("tx.before_commit", 1, "charge"),
    Point("tx.after_commit", 1),
    Point("step.before", 3, about="receipt"),
    Point("step.after", 3, "receipt"),
    Point("run.after", 1, "receipt"),
    Point("park.before", 1, "receipt"),
    Point("park.after", 1),
]
SECOND_RUN = [
    Point("run.before", 2),
    Point("record.before", 3),
    Point("record.after", 3),
    Point("step.before", 4, about="notify"),
    Point("step.after", 4, "notify"),
    Point("run.after", 2, "notify"),
    Point("complete.before", 1, "notify"),
    Point("complete.after", 1),
]
POINTS = FIRST_RUN + SECOND_RUN
QUICK = ("step.before#2", "step.after#1", "tx.before_commit#1", "tx.after_commit#1", "park.before#1", "park.after#1")


def in_two(points: list[Point], *quick: str) -> list[Any]:
    """These, of which all but some are slow together."""
    return [
        pytest.param(point, id=str(point), marks=() if str(point) in quick else pytest.mark.slow) for point in points
    ]


# Helpers


def start(fleet: Fleet, **arguments: Any) -> UUID:
    return fleet.inbox.enqueue("checkout", idempotency_key=INSTANCE, order=9182, **arguments)


def worker(fleet: Fleet, **options: Any) -> Worker:
    return fleet.start(**{"app": APP, "lease": LEASE, **options})


def signalled(fleet: Fleet, name: str = "shipped", signal_id: str | None = None, parcel: str = "P1") -> str:
    statement = "select holdfast.signal(%s, %s, jsonb_build_object('parcel', %s::text), %s)"
    return str(fleet.inbox.one(statement, INSTANCE, name, parcel, signal_id))


def cancelled(fleet: Fleet, job: UUID) -> None:
    fleet.inbox.rows("select * from holdfast.cancel(array[%s::uuid])", job)


def state(fleet: Fleet, job: UUID) -> str:
    rows = fleet.inbox.rows("select state from holdfast.workflows where job_id = %s", job)
    return str(rows[0]["state"]) if rows else "ended"


def wait_state(fleet: Fleet, job: UUID, wanted: str, seconds: float = RECOVERY) -> None:
    def there() -> bool:
        time.sleep(0.02)
        return state(fleet, job) == wanted

    wait_until(there, seconds)


def calls(fleet: Fleet, job: UUID) -> list[str]:
    """The steps that were called, in this order."""
    return [seen.what for seen in fleet.seen(job) if seen.what not in ("inside", "started")]


def written(fleet: Fleet, job: UUID) -> list[int]:
    """What steps wrote through `ctx.tx`: 1 charged, -1 refunded."""
    return sorted(row["attempt"] for row in fleet.inbox.rows("select attempt from effects where job = %s", job))


def kept_steps(fleet: Fleet, job: UUID) -> list[tuple[str, str]]:
    """The steps of the ended instance, as they are archived."""
    (row,) = fleet.inbox.rows("select steps from holdfast.archive where id = %s", job)
    steps = sorted(row["steps"]["steps"], key=lambda step: step["ordinal"])
    return [(step["name"], step["status"]) for step in steps]


def nothing_is_left(fleet: Fleet, *tables: str) -> None:
    """No row of the instance remains, once the chores have been there."""
    counted = "(select count(*) from holdfast.{})".format
    question = "select " + " + ".join(map(counted, tables or ("steps", "signals", "instances", "inbox")))
    wait_until(lambda: fleet.inbox.one(question) == 0)


def check_done(fleet: Fleet, job: UUID, repeated: str = "", again: str = "", result: list[str] = RESULT) -> None:
    """It is done, once, and nothing that was recorded was called again."""
    row = fleet.inbox.job(job)
    assert (row["status"], row["result"]) == ("completed", result)
    given = {name: value for name, value in row["payload"].items() if name not in ("order", "type")}
    check_calls(fleet, job, CALLED, repeated, again)
    assert written(fleet, job) == [1], "the effect of a transaction is there once"
    last = "done" if result == RESULT else "timed_out"
    assert kept_steps(fleet, job) == [(name, last if name == "shipped" else "done") for name in STEPS]
    nothing_is_left(fleet)
    assert start(fleet, **given) == job, "the id still stands for this instance"
    fleet.inbox.check_promises()


def check_calls(fleet: Fleet, job: UUID, expected: list[str], repeated: str = "", again: str = "") -> None:
    """Each of these was called, in this order; twice only where it is allowed. `again`: by a stopped owner."""
    counts = Counter(calls(fleet, job))
    for what in [what for what in counts if what.startswith(TOLD)]:
        assert what.removeprefix(TOLD) in again.split(), f"called although its record was committed: {what}"
        assert counts.pop(what) == 1
    assert list(counts) == expected
    twice = {step for step, count in counts.items() if count > 1}
    assert twice <= set(repeated.split()), f"called twice: {twice}"
    assert max(counts.values()) <= 2, counts


def signal_when_it_waits(fleet: Fleet, job: UUID) -> None:
    wait_state(fleet, job, "waiting")
    assert signalled(fleet) == "woken"


# Killed


def test_without_any_fault(fleet: Fleet) -> None:
    job = start(fleet)
    worker(fleet)
    signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job)
    assert calls(fleet, job) == CALLED


@pytest.mark.parametrize("point", in_two(POINTS, *QUICK))
def test_the_worker_is_killed_here(fleet: Fleet, point: Point, tmp_path: Path) -> None:
    # A lease that outlasts the test: its supervisor sees to it that the instance goes on.
    marker = tmp_path / "killed"
    job = start(fleet)
    worker(fleet, probes=f"{point}=kill@{marker}", lease=300)
    if point in SECOND_RUN:
        signal_when_it_waits(fleet, job)
        wait_until(marker.exists)
    else:
        wait_until(marker.exists)
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, point.repeated)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_worker_and_supervisor_are_killed_here_and_the_lease_runs_out(
    fleet: Fleet, point: Point, tmp_path: Path
) -> None:
    marker = tmp_path / "stopped"
    job = start(fleet)
    first = worker(fleet, probes=f"{point}=stop@{marker}")
    if point in SECOND_RUN:
        signal_when_it_waits(fleet, job)
    wait_until(marker.exists)
    first.end()
    worker(fleet)
    if point in FIRST_RUN:
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, point.repeated)


@pytest.mark.parametrize("run", [1, 2])
def test_the_worker_is_killed_when_it_has_claimed(fleet: Fleet, run: int, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    job = start(fleet)
    if run == 2:
        first = worker(fleet)
        wait_state(fleet, job, "waiting")
        assert first.drain() == 0
        assert signalled(fleet) == "woken"
    worker(fleet, probes=f"claim.after=kill@{marker}", lease=300)
    wait_until(marker.exists)
    if run == 1:
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job)


@pytest.mark.parametrize("step", CALLED)
def test_the_worker_is_killed_inside_a_step(fleet: Fleet, step: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold=step, gate=str(gate))
    first = worker(fleet, lease=300)
    if step == "notify":
        signal_when_it_waits(fleet, job)
    fleet.wait_seen(job, "inside")
    os.kill(first.child, signal.SIGKILL)
    gate.touch()
    if step != "notify":
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, step)
    assert Counter(calls(fleet, job))[step] == 2


def test_a_step_that_cannot_be_stopped_costs_its_process_and_nothing_that_is_recorded(
    fleet: Fleet, tmp_path: Path
) -> None:
    # It runs beside another step of its instance, which ends; and another instance runs in the same process.
    gate = tmp_path / "gate"
    companion = start(fleet, hold="receipt", gate=str(gate))
    first = worker(fleet, lease=300, options=["--grace", "0.5"])
    fleet.wait_seen(companion, "inside")
    pid = first.child
    job = fleet.inbox.enqueue("overdue")
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    fleet.inbox.wait(job)
    row = fleet.inbox.job(job)
    assert (row["result"], [error["error"] for error in row["errors"]]) == ("heard", ["Timeout"])
    counts = Counter(calls(fleet, job))
    assert (counts["first"], counts["deaf"], counts["told"]) == (1, 2, 1), "it was told before its process was killed"
    gate.touch()
    signal_when_it_waits(fleet, companion)
    fleet.inbox.wait(companion)
    assert not fleet.inbox.job(companion)["errors"], "it lost no attempt"
    check_done(fleet, companion, "receipt")


# Stopped, and continued after another worker has taken over


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_worker_is_stopped_here_for_longer_than_its_lease(fleet: Fleet, point: Point, tmp_path: Path) -> None:
    marker = tmp_path / "stopped"
    job = start(fleet)
    first = worker(fleet, probes=f"{point}=stop@{marker}")
    if point in SECOND_RUN:
        signal_when_it_waits(fleet, job)
    wait_until(marker.exists)
    worker(fleet)
    if point in FIRST_RUN:
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    ended = fleet.inbox.job(job)
    for pid in first.children:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)  # what it does now must not count
    assert first.drain() == 0
    assert fleet.inbox.job(job) == ended
    check_done(fleet, job, f"{point.repeated} {point.about}", point.about)


@pytest.mark.parametrize("step", ["reserve", "charge", "receipt"])
def test_what_a_stopped_owner_records_does_not_count(fleet: Fleet, step: str, tmp_path: Path) -> None:
    # It is stopped inside a step, goes on when the instance has passed that step elsewhere, and finishes the step.
    gate = tmp_path / "gate"
    job = start(fleet, hold=step, gate=str(gate))
    first = worker(fleet)
    fleet.wait_seen(job, "inside")
    children = first.children
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    gate.touch()
    worker(fleet)
    wait_state(fleet, job, "waiting")
    before = fleet.inbox.rows("select * from holdfast.steps order by ordinal")
    row = fleet.inbox.job(job)
    for pid in children:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)
    assert fleet.inbox.rows("select * from holdfast.steps order by ordinal") == before
    assert fleet.inbox.job(job) == row
    assert signalled(fleet) == "woken"
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, step)
    assert Counter(calls(fleet, job))[step] == 2


# The server


@pytest.mark.parametrize("step", [*CALLED, "shipped"])
def test_the_server_is_killed_and_restarted(
    own_postgres: EmbeddedPostgres, own_fleet: Fleet, step: str, tmp_path: Path
) -> None:
    fleet, gate = own_fleet, tmp_path / "gate"
    job = start(fleet, hold=step, gate=str(gate))
    worker(fleet)
    if step in ("notify", "shipped"):
        wait_state(fleet, job, "waiting")
    if step == "notify":
        assert signalled(fleet) == "woken"
    if step != "shipped":
        fleet.wait_seen(job, "inside")
    own_postgres.kill()
    gate.touch()
    own_postgres.start()
    if step != "notify":
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    # A step outside of a transaction has run through the outage. The step in a transaction was rolled back.
    check_done(fleet, job, step)


# Signals


def test_a_signal_before_the_first_step(fleet: Fleet) -> None:
    job = start(fleet)
    assert signalled(fleet) == "kept"
    worker(fleet)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job)


@pytest.mark.parametrize("step", ["reserve", "charge", "receipt"])
def test_a_signal_before_the_wait(fleet: Fleet, step: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold=step, gate=str(gate))
    worker(fleet)
    fleet.wait_seen(job, "inside")
    assert signalled(fleet) == "kept"
    gate.touch()
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job)
    assert calls(fleet, job) == CALLED


@pytest.mark.parametrize("probe", ["park.before", "park.after"])
@pytest.mark.parametrize("then", ["continued", "killed"])
def test_a_signal_while_it_is_parked(fleet: Fleet, probe: str, then: str, tmp_path: Path) -> None:
    marker = tmp_path / "stopped"
    job = start(fleet)
    first = worker(fleet, probes=f"{probe}=stop@{marker}", lease=300)
    wait_until(marker.exists)
    assert signalled(fleet) == ("kept" if probe == "park.before" else "woken")
    os.kill(first.child, signal.SIGCONT if then == "continued" else signal.SIGKILL)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, "receipt" if (probe, then) == ("park.before", "killed") else "")


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "rolled back"])
def test_a_signal_whose_transaction_is_open_while_it_is_parked(fleet: Fleet, committed: bool, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold="receipt", gate=str(gate))
    worker(fleet)
    fleet.wait_seen(job, "inside")
    with psycopg.connect(direct(fleet.inbox.url)) as connection:
        connection.execute("select holdfast.signal(%s, 'shipped', '{\"parcel\": \"P1\"}')", [INSTANCE])
        gate.touch()
        busy = "select coalesce(max(snoozes), 0) from holdfast.inbox"
        wait_until(lambda: fleet.inbox.one(busy) >= 2)  # it does not wait for the transaction
        if not committed:
            connection.rollback()
    if not committed:
        signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job)
    assert calls(fleet, job) == CALLED


def test_one_signal_id_has_one_effect(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold="reserve", gate=str(gate))
    first = worker(fleet, lease=300)
    fleet.wait_seen(job, "inside")
    assert [signalled(fleet, signal_id="s1"), signalled(fleet, signal_id="s1", parcel="P2")] == ["kept", "known"]
    os.kill(first.child, signal.SIGKILL)
    assert signalled(fleet, signal_id="s1", parcel="P3") == "known"
    gate.touch()
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert signalled(fleet, signal_id="s1", parcel="P4") == "ended"
    check_done(fleet, job, "reserve")
    (row,) = fleet.inbox.rows("select steps from holdfast.archive where id = %s", job)
    assert row["steps"]["signals"] == []


def test_the_wait_times_out_while_no_worker_runs(fleet: Fleet) -> None:
    job = start(fleet, patience="3s")  # it has to be seen while it waits
    first = worker(fleet)
    wait_state(fleet, job, "waiting")
    first.end()
    time.sleep(3.1)
    worker(fleet)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, result=[*RESULT[:3], "late"])
    assert calls(fleet, job) == CALLED


# Cancelled


def check_undone(fleet: Fleet, job: UUID, done: list[str], repeated: str = "", again: str = "") -> None:
    """It is cancelled, and what was done is undone, the last one first."""
    row = fleet.inbox.job(job)
    assert row["status"] == "cancelled"
    undone = [f"undo:{step}" for step in ("charge", "reserve") if step in done]
    check_calls(fleet, job, [*done, *undone], repeated, again)
    assert written(fleet, job) == ([-1, 1] if "charge" in done else []), "each effect of a transaction is there once"
    assert [name for name, _ in kept_steps(fleet, job) if name.startswith("undo:") and name != "undo:"] == undone
    nothing_is_left(fleet)
    fleet.inbox.check_promises()


CANCELLED = [
    # Stopped here and cancelled, these steps are begun. It learns of it with its next record: where there is nothing to
    # record, the next step begins.
    ("step.before#1", ["reserve"]),
    ("step.after#1", ["reserve"]),
    ("record.before#1", ["reserve"]),
    ("record.after#1", ["reserve", "charge"]),
    ("step.before#2", ["reserve", "charge"]),
    ("step.after#2", ["reserve", "charge"]),
    ("tx.before_commit#1", ["reserve", "charge", "receipt"]),  # cancel waits until it is committed
    ("tx.after_commit#1", ["reserve", "charge", "receipt"]),
    ("step.before#3", ["reserve", "charge", "receipt"]),
    ("step.after#3", ["reserve", "charge", "receipt"]),
    ("park.before#1", ["reserve", "charge", "receipt"]),
    ("park.after#1", ["reserve", "charge", "receipt"]),
]


@pytest.mark.slow
@pytest.mark.parametrize("then", ["continued", "killed"])
@pytest.mark.parametrize("point, done", CANCELLED, ids=[point for point, _ in CANCELLED])
def test_cancelled_at_a_boundary(fleet: Fleet, point: str, done: list[str], then: str, tmp_path: Path) -> None:
    marker = tmp_path / "stopped"
    job = start(fleet)
    first = worker(fleet, probes=f"{point}=stop@{marker}", lease=300)
    wait_until(marker.exists)
    cancel = threading.Thread(target=cancelled, args=[fleet, job])
    cancel.start()  # it waits while a step's transaction holds the row
    if point != "tx.before_commit#1":
        cancel.join(10)
    os.kill(first.child, signal.SIGCONT if then == "continued" else signal.SIGKILL)
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    cancel.join(10)
    row = fleet.inbox.job(job)
    assert row["status"] == "cancelled"
    counts = Counter(calls(fleet, job))
    assert not [what for what in counts if what.startswith(TOLD)]
    ran = [step for step in CALLED if counts[step]]
    kept = [name for name, status in kept_steps(fleet, job) if status == "done"]
    recorded = [step for step in ("reserve", "charge") if step in kept]
    undone = [step for step in counts if step.startswith("undo:")]
    assert undone == [f"undo:{step}" for step in reversed(recorded)], "the recorded steps, the last one first"
    assert written(fleet, job) == ([-1, 1] if "charge" in recorded else [])
    assert "notify" not in ran
    if then == "continued":
        assert ran == done
        assert set(counts.values()) <= {1}
    nothing_is_left(fleet)
    fleet.inbox.check_promises()


def test_cancelled_while_it_waits(fleet: Fleet) -> None:
    job = start(fleet)
    worker(fleet)
    wait_state(fleet, job, "waiting")
    cancelled(fleet, job)
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    check_undone(fleet, job, CALLED[:3])


def test_an_instance_that_is_being_undone_says_so(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold="undo:reserve", gate=str(gate))
    worker(fleet)
    wait_state(fleet, job, "waiting")
    cancelled(fleet, job)
    fleet.wait_seen(job, "inside")
    assert state(fleet, job) == "undoing"
    assert signalled(fleet) == "kept"
    gate.touch()
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    check_undone(fleet, job, CALLED[:3])


def cancelled_when_it_waits(fleet: Fleet, **arguments: Any) -> UUID:
    """An instance that no worker has, and that will be undone."""
    job = start(fleet, **arguments)
    first = worker(fleet)
    wait_state(fleet, job, "waiting")
    first.drain()
    cancelled(fleet, job)
    return job


UNDOING = [
    Point("step.before", 1, about="undo:charge"),
    Point("step.after", 1, "undo:charge"),
    Point("record.before", 1, "undo:charge"),
    Point("record.after", 1, "undo:charge"),  # in the transaction, which is not committed
    Point("tx.before_commit", 1, "undo:charge"),
    Point("tx.after_commit", 1),
    Point("step.before", 2, about="undo:reserve"),
    Point("step.after", 2, "undo:reserve"),
    Point("complete.before", 1, "undo:reserve"),
    Point("complete.after", 1),
]


@pytest.mark.parametrize("point", in_two(UNDOING, "tx.before_commit#1", "tx.after_commit#1"))
def test_the_worker_is_killed_while_it_undoes(fleet: Fleet, point: Point, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    job = cancelled_when_it_waits(fleet)
    worker(fleet, probes=f"{point}=kill@{marker}", lease=300)
    wait_until(marker.exists)
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    check_undone(fleet, job, CALLED[:3], point.repeated)


@pytest.mark.slow
@pytest.mark.parametrize("point", UNDOING, ids=str)
def test_the_worker_is_stopped_while_it_undoes_for_longer_than_its_lease(
    fleet: Fleet, point: Point, tmp_path: Path
) -> None:
    marker = tmp_path / "stopped"
    job = cancelled_when_it_waits(fleet)
    first = worker(fleet, probes=f"{point}=stop@{marker}")
    wait_until(marker.exists)
    worker(fleet)
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    ended = fleet.inbox.job(job)
    for pid in first.children:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)  # what it does now must not count
    assert first.drain() == 0
    assert fleet.inbox.job(job) == ended
    check_undone(fleet, job, CALLED[:3], f"{point.repeated} {point.about}", point.about)


@pytest.mark.parametrize("step", ["undo:charge", "undo:reserve"])
def test_the_worker_is_killed_inside_a_step_that_undoes(fleet: Fleet, step: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = cancelled_when_it_waits(fleet, hold=step, gate=str(gate))
    first = worker(fleet, lease=300)
    fleet.wait_seen(job, "inside")
    os.kill(first.child, signal.SIGKILL)
    gate.touch()
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    check_undone(fleet, job, CALLED[:3], step)
    assert Counter(calls(fleet, job))[step] == 2


@pytest.mark.parametrize("step", ["undo:charge", "undo:reserve"])
def test_the_server_is_killed_and_restarted_while_the_worker_undoes(
    own_postgres: EmbeddedPostgres, own_fleet: Fleet, step: str, tmp_path: Path
) -> None:
    fleet, gate = own_fleet, tmp_path / "gate"
    job = cancelled_when_it_waits(fleet, hold=step, gate=str(gate))
    worker(fleet)
    fleet.wait_seen(job, "inside")
    own_postgres.kill()
    gate.touch()
    own_postgres.start()
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    check_undone(fleet, job, CALLED[:3], step)


@pytest.mark.parametrize("step", ["reserve", "charge", "receipt"])
@pytest.mark.parametrize("supervised", [True, False], ids=["process", "host"])
def test_cancelled_in_a_step_whose_worker_dies_in_the_last_attempt(
    fleet: Fleet, step: str, supervised: bool, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = fleet.inbox.enqueue(
        "checkout", idempotency_key=INSTANCE, order=9182, max_attempts=1, hold=step, gate=str(gate)
    )
    first = worker(fleet, lease=300 if supervised else LEASE)
    fleet.wait_seen(job, "inside")
    cancelled(fleet, job)
    if supervised:
        os.kill(first.child, signal.SIGKILL)
    else:
        first.end()
        worker(fleet)
    gate.touch()
    fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
    done = CALLED[: CALLED.index(step)]
    row = fleet.inbox.job(job)
    assert row["status"] == "cancelled"
    undone = [f"undo:{step}" for step in ("charge", "reserve") if step in done]
    check_calls(fleet, job, [*done, step, *undone])
    assert written(fleet, job) == ([-1, 1] if "charge" in done else [])
    nothing_is_left(fleet)


def check_family_undone(fleet: Fleet, parent: UUID, child: UUID) -> None:
    for job, step in ((parent, "A"), (child, "B")):
        fleet.inbox.wait(job, "cancelled", seconds=RECOVERY)
        assert calls(fleet, job) == [step, f"undo:{step}"]
        assert written(fleet, job) == [-1, 1]
    nothing_is_left(fleet)
    fleet.inbox.check_promises()


def cancelled_family(fleet: Fleet) -> tuple[UUID, UUID]:
    """An instance that waits for a child, which waits for a signal; it is cancelled while no worker runs."""
    parent = fleet.inbox.enqueue("outer")
    first = worker(fleet)
    wait_state(fleet, parent, "waiting")
    child = fleet.inbox.one("select child_id from holdfast.steps where job_id = %s and kind = 'child'", parent)
    wait_state(fleet, child, "waiting")
    assert first.drain() == 0
    cancelled(fleet, parent)
    return parent, child


def test_a_cancelled_instance_and_its_child_are_undone_without_waiting_for_each_other(fleet: Fleet) -> None:
    parent, child = cancelled_family(fleet)
    worker(fleet, options=["--queue", "default"])
    fleet.inbox.wait(parent, "cancelled", seconds=RECOVERY)
    assert state(fleet, child) == "queued"
    worker(fleet, options=["--queue", "inner"])
    check_family_undone(fleet, parent, child)


@pytest.mark.parametrize("probe", ["complete.before", "complete.after"])
def test_the_worker_is_killed_while_it_ends_a_cancelled_child(fleet: Fleet, probe: str, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    parent, child = cancelled_family(fleet)
    worker(fleet, probes=f"{probe}=kill@{marker}", lease=300, options=["--queue", "inner"])
    wait_until(marker.exists)
    fleet.inbox.wait(child, "cancelled", seconds=RECOVERY)
    told = "select status from holdfast.steps where job_id = %s and kind = 'child'"
    assert (state(fleet, parent), fleet.inbox.one(told, parent)) == ("queued", "failed"), "it is told, and lives"
    worker(fleet, options=["--queue", "default"])
    check_family_undone(fleet, parent, child)


# Deploys


def test_a_worker_is_drained_during_a_long_step(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold="charge", gate=str(gate))
    first = worker(fleet)
    fleet.wait_seen(job, "inside")
    first.send(signal.SIGTERM)
    time.sleep(0.5)
    gate.touch()
    assert first.wait() == 0
    worker(fleet)
    signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job)
    assert calls(fleet, job) == CALLED


def test_a_step_outlasts_the_drain(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = start(fleet, hold="charge", gate=str(gate))
    first = worker(fleet, options=["--drain", "0.5"])
    fleet.wait_seen(job, "inside")
    assert first.drain() == 0
    gate.touch()
    worker(fleet)
    signal_when_it_waits(fleet, job)
    fleet.inbox.wait(job, seconds=RECOVERY)
    check_done(fleet, job, "charge")


def test_a_step_in_a_thread_outlasts_the_drain(fleet: Fleet) -> None:
    """Its process ends without waiting for it, and before anybody else calls it. The step beside it is cancelled."""
    job = fleet.inbox.enqueue("stubborn")
    first = worker(fleet, lease=300, options=["--drain", "0.5"])
    for step in ("slow", "rest"):
        fleet.wait_seen(job, step)
    worker(fleet, lease=300)
    assert first.drain() == 0
    fleet.inbox.wait(job, seconds=RECOVERY)
    counts = Counter(calls(fleet, job))
    assert counts == {"slow": 2, "rest": 2, "cancelled": 1}
    assert fleet.seen(job, "cancelled")[0].pid == fleet.seen(job, "slow")[0].pid
    row = fleet.inbox.job(job)
    assert row["attempts"] == 1 and not row["errors"], "it lost no attempt"


VERSION_1 = """
from holdfast import Flow, Holdfast
hf = Holdfast()
async def one() -> str: return "one"
async def two() -> str: return "two"
@hf.workflow(version=1)
async def deployed(flow: Flow) -> list[str]:
    first = await flow.step("first", one)
    await flow.wait("go")
    return [first, await flow.step("second", one)]
"""
WITHOUT_1 = """
from holdfast import Flow, Holdfast
hf = Holdfast()
async def two() -> str: return "two"
@hf.workflow(version=2)
async def deployed(flow: Flow, reason: str = "") -> list[str]:
    return [await flow.step("only", two)]
"""
WITH_BOTH = (
    WITHOUT_1
    + """
@deployed.version(1)
async def deployed_1(flow: Flow) -> list[str]:
    first = await flow.step("first", two)
    await flow.wait("go")
    return [first, await flow.step("second", two)]
"""
)
RENAMED = VERSION_1.replace('"first"', '"begin"')


class Deploys:
    """Workers with one code after the other."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder = fleet, folder
        self.number = 0
        self.last: Worker | None = None

    def deploy(self, code: str) -> Worker:
        if self.last is not None:
            assert self.last.drain() == 0
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir()
        (folder / "shop.py").write_text(code)
        self.last = worker(self.fleet, app="shop:hf", environment={"PYTHONPATH": str(folder)})
        return self.last


@pytest.fixture
def deploys(fleet: Fleet, tmp_path: Path) -> Deploys:
    return Deploys(fleet, tmp_path)


def go(fleet: Fleet, job: UUID) -> None:
    assert fleet.inbox.one("select holdfast.signal(%s, 'go')", str(job)) in ("woken", "kept")


def shown(fleet: Fleet, *words: str) -> Any:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "holdfast.cli", *words]
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": fleet.inbox.url}
    return json.loads(subprocess.run(command, env=variables, capture_output=True, check=True, timeout=60).stdout)


def test_an_instance_keeps_its_version(fleet: Fleet, deploys: Deploys) -> None:
    deploys.deploy(VERSION_1)
    job = fleet.inbox.enqueue("deployed")
    wait_state(fleet, job, "waiting")
    deploys.deploy(WITHOUT_1)
    go(fleet, job)
    (named,) = shown(fleet, "stats", "--json")["unclaimable"]
    assert (named["kind"], named["version"], named["rows"]) == ("deployed", 1, 1)
    assert named["reason"] == "no live worker knows this version"
    answer = shown(fleet, "job", "explain", str(job), "--json")["reasons"][0]
    assert answer["code"] == "no_worker_for_version"
    assert "knows version 1 of deployed; they know version 2" in answer["sentence"]
    (row,) = fleet.inbox.rows("select workflow, version, state from holdfast.workflows")
    assert row == {"workflow": "deployed", "version": 1, "state": "queued"}
    deploys.deploy(WITH_BOTH)
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert fleet.inbox.job(job)["result"] == ["one", "two"]
    nothing_is_left(fleet)


def test_code_that_does_not_fit_needs_attention(fleet: Fleet, deploys: Deploys) -> None:
    deploys.deploy(VERSION_1)
    job = fleet.inbox.enqueue("deployed")
    wait_state(fleet, job, "waiting")
    deploys.deploy(RENAMED)
    go(fleet, job)
    wait_state(fleet, job, "needs attention")
    row = fleet.inbox.job(job)
    assert row["status"] == "dead_letter"
    error = row["errors"][-1]
    assert error["error"] == "HistoryMismatch"
    assert "first (step)" in error["details"]["diff"] and "begin (step)" in error["details"]["diff"]
    steps = fleet.inbox.rows("select name, status from holdfast.steps order by ordinal")
    assert [step["name"] for step in steps] == ["first", "go"], "nothing was run"
    deploys.deploy(VERSION_1)
    assert fleet.inbox.one("select holdfast.resume_instance(%s)", str(job)) == "resumed"
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert fleet.inbox.job(job)["result"] == ["one", "one"]
    nothing_is_left(fleet)


# Children


def check_all_of_them(fleet: Fleet, parent: UUID, count: int) -> None:
    row = fleet.inbox.job(parent)
    assert row["result"] == 3 * sum(range(count))
    assert fleet.inbox.one("select count(*) from holdfast.archive where id = %s", parent) == 1
    assert written(fleet, parent) == [-1], "it ended once"
    doubled = fleet.inbox.rows("select attempt as number, count(*) as times from effects where attempt >= 0 group by 1")
    assert {row["number"]: row["times"] for row in doubled} == dict.fromkeys(range(count), 1)
    ended = "select kind, status::text, count(*) as jobs from holdfast.archive group by 1, 2 order by 1"
    kinds = fleet.inbox.rows(ended)
    assert [(row["kind"], row["status"], row["jobs"]) for row in kinds] == [
        ("all_of_them", "completed", 1),
        ("double", "completed", count),
        ("triple", "completed", count),
    ]
    assert not [seen for seen in fleet.seen() if seen.what.startswith(TOLD)]
    nothing_is_left(fleet)


@pytest.mark.parametrize("seconds", [pytest.param(4, id="some"), pytest.param(20, id="many", marks=pytest.mark.slow)])
def test_children_and_parent_while_workers_are_killed(fleet: Fleet, seconds: float) -> None:
    dice = random.Random(9182)
    count = 50
    workers = [worker(fleet, processes=2, lease=LEASE) for _ in range(2)]
    parent = fleet.inbox.enqueue("all_of_them", max_attempts=1000, count=count)
    over = time.monotonic() + seconds
    while time.monotonic() < over and fleet.inbox.status(parent) != "completed":
        time.sleep(dice.uniform(0.05, 0.5))
        if children := dice.choice(workers).children:
            os.kill(dice.choice(children), signal.SIGKILL)
    fleet.inbox.wait(parent, seconds=60)
    check_all_of_them(fleet, parent, count)
