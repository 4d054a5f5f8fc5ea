"""P16 for leases: they run by the database's clock, whatever the worker's says, and however long a handler takes."""

from pathlib import Path

import pytest
from tests.cli.test_clocks import SKEWED
from tests.support.workers import Fleet

pytestmark = pytest.mark.faults

LEASE = 3.0
SOUND = """
    select bool_and(abs(extract(epoch from lease_expires_at - clock_timestamp())) < 60) as it
    from holdfast.inbox where status = 'processing'
"""
"""An hour is what would show; a minute forgives a machine that does other things."""


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_long_job_of_a_worker_an_hour_off_runs_once(fleet: Fleet, tmp_path: Path, hours: int) -> None:
    (tmp_path / "sitecustomize.py").write_text(SKEWED)
    skewed = {"PYTHONPATH": str(tmp_path), "CLOCK_OFFSET": str(hours * 3600)}
    gate = tmp_path / "gate"
    fleet.start(lease=LEASE, environment=skewed)
    job = fleet.inbox.enqueue("hold", gate=str(gate))
    fleet.wait_seen(job, "started")
    assert fleet.inbox.one(SOUND), f"as it was claimed: {fleet.inbox.job(job)}"
    fleet.start(lease=LEASE)  # another, which would sweep what it takes for expired
    began = fleet.inbox.one("select clock_timestamp()")
    longer = f"select clock_timestamp() > %s + interval '{1.5 * LEASE} seconds'"
    while not fleet.inbox.one(longer, began):
        assert fleet.inbox.one(SOUND), f"as it was renewed: {fleet.inbox.job(job)}"
    gate.touch()
    fleet.inbox.wait(job)
    assert [seen.what for seen in fleet.seen(job)] == ["started", "finished"]
    assert (fleet.inbox.job(job)["attempts"], fleet.inbox.job(job)["errors"]) == (1, None)
