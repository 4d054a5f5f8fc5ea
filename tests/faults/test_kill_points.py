"""SIGKILL at every named point of a job's life.

The table says how often the effect is seen afterwards. Twice is allowed in exactly the windows that the guarantees
name: an outside effect without a marker, and one whose marker was not written yet. Effects through `ctx.tx` and effects
behind a written marker are seen once, always.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.faults

RECOVERY = 1 + 10.0
"""Seconds, as in test_liveness.py."""


@dataclass(frozen=True, slots=True)
class Point:
    probe: str
    kind: str
    effects: int
    attempts: int
    """Of the finished job, when the supervisor lived: it knows what had started."""
    swept: int
    """The same when nobody lived to tell, and the lease ran out."""

    def __str__(self) -> str:
        return self.probe


POINTS = [
    Point("claim.after", "effect", effects=1, attempts=1, swept=2),
    Point("run.before", "effect", effects=1, attempts=2, swept=2),
    Point("run.after", "effect", effects=2, attempts=2, swept=2),  # an outside effect without a marker
    Point("once.before", "once_effect", effects=2, attempts=2, swept=2),  # the one window of once()
    Point("once.after", "once_effect", effects=1, attempts=2, swept=2),
    Point("tx.before_commit", "tx_effect", effects=1, attempts=2, swept=2),
    Point("tx.after_commit", "tx_effect", effects=1, attempts=1, swept=1),
    Point("complete.before", "effect", effects=2, attempts=2, swept=2),
    Point("complete.after", "effect", effects=1, attempts=1, swept=1),
    Point("fail.before", "failing", effects=2, attempts=2, swept=2),
    Point("fail.after", "failing", effects=2, attempts=2, swept=2),
]


def enqueue(fleet: Fleet, point: Point) -> UUID:
    if point.kind == "failing":
        return fleet.inbox.enqueue("failing", times=1, idempotency_key="key-1")
    return fleet.inbox.enqueue(point.kind, idempotency_key="key-1")


def effects(fleet: Fleet, point: Point, job: UUID) -> int:
    return fleet.inbox.effects(job) if point.kind == "tx_effect" else len(fleet.seen(job, "effect"))


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_worker_dies_here_and_its_supervisor_hands_the_work_on(fleet: Fleet, point: Point, tmp_path: Path) -> None:
    # A lease that outlasts the test: whatever comes back, came back because the supervisor saw to it.
    marker = tmp_path / "killed"
    job = enqueue(fleet, point)
    fleet.start(probes=f"{point.probe}=kill@{marker}", lease=300)
    wait_until(marker.exists)
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert effects(fleet, point, job) == point.effects
    assert fleet.inbox.job(job)["attempts"] == point.attempts
    assert enqueue(fleet, point) == job, "P6: the key still stands for the first job"
    fleet.inbox.check_promises()


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_worker_and_supervisor_die_here_together_and_the_lease_runs_out(
    fleet: Fleet, point: Point, tmp_path: Path
) -> None:
    # The probe stops the process at the point; killing its supervisor then kills both in that very state.
    marker = tmp_path / "stopped"
    job = enqueue(fleet, point)
    first = fleet.start(probes=f"{point.probe}=stop@{marker}", lease=1)
    wait_until(marker.exists)
    child = first.child
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists())
    fleet.start(lease=1)
    fleet.inbox.wait(job, seconds=RECOVERY)
    assert effects(fleet, point, job) == point.effects
    assert fleet.inbox.job(job)["attempts"] == point.swept
    assert enqueue(fleet, point) == job, "P6: the key still stands for the first job"
    fleet.inbox.check_promises()


@pytest.mark.parametrize("probe", ["drain.before", "hand_back.before"])
def test_a_worker_dies_while_it_drains(fleet: Fleet, probe: str, tmp_path: Path) -> None:
    # Quick jobs teach the worker to claim ahead; the one that holds its only hand keeps the rest from starting.
    gate, marker = tmp_path / "gate", tmp_path / "killed"
    fleet.inbox.enqueue_many("quick", 200)
    held = fleet.inbox.enqueue("hold", gate=str(gate))
    behind = fleet.inbox.enqueue_many("effect", 20)
    worker = fleet.start(probes=f"{probe}=kill@{marker}", lease=300, concurrency=1)
    fleet.wait_seen(held, "started")
    wait_until(lambda: fleet.inbox.count(behind, "processing") > 0)
    worker.drain()
    assert marker.exists()
    assert fleet.inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 0
    gate.touch()
    fleet.start()
    fleet.inbox.wait([held, *behind], seconds=RECOVERY)
    assert fleet.inbox.job(held)["attempts"] == 2
    assert {fleet.inbox.job(job)["attempts"] for job in behind} == {1}
    assert len(fleet.seen(what="effect")) == len(behind)
    fleet.inbox.check_promises()
