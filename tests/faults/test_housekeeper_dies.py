"""Whoever keeps house may die in the middle of it: nothing stays locked, nothing half done, another goes on."""

from pathlib import Path

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.faults


def test_a_housekeeper_killed_in_the_middle_of_a_sweep(fleet: Fleet, tmp_path: Path) -> None:
    # Requirement 75.
    marker = tmp_path / "killed"
    first = fleet.start(probes=f"sweep.before=kill@{marker}")
    job = fleet.inbox.enqueue("effect")
    fleet.inbox.wait(job)
    wait_until(marker.exists)
    first.wait()
    abandoned = fleet.inbox.one(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, status, claimed_by, lease_generation,"
        " attempts, lease_expires_at)"
        """ values ('k', 1, '{"type": "effect"}', 'processing', 'by hand', 1, 1, now()) returning id"""
    )
    wait_until(lambda: fleet.inbox.one("select count(*) = 0 from pg_locks where locktype = 'advisory'"))
    fleet.start()
    fleet.inbox.wait(abandoned)  # a row claimed by hand and left behind is recovered, too
    assert fleet.inbox.job(abandoned)["errors"][0]["worker"] == "by hand"


def test_a_supervisor_stopped_in_the_middle_of_a_sweep_holds_it_no_longer_than_a_lease(
    fleet: Fleet, tmp_path: Path
) -> None:
    marker = tmp_path / "stopped"
    swept = "select ran_at from holdfast.chores where name = 'sweep'"
    fleet.start(lease=2, probes=f"sweep.before=stop@{marker}")
    wait_until(marker.exists)
    assert not fleet.inbox.rows(swept)
    fleet.start(lease=2)
    wait_until(lambda: bool(fleet.inbox.rows(swept)), seconds=2 + 4)  # a lease, and rounds of housekeeping
