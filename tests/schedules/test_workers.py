"""Real workers fire schedules: killed in the middle of it, stopped all at once, across a change of the clocks."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.schedules.conftest import Clock, slots
from tests.support.waiting import until, wait_until
from tests.support.workers import Fleet, Inbox

from holdfast import Holdfast
from holdfast.schedules import firing

SECOND = timedelta(seconds=1)


@pytest.mark.faults
def test_workers_killed_before_and_after_they_fire_leave_no_slot_out_and_none_twice(
    fleet: Fleet, tmp_path: Path
) -> None:
    app = "tests.apps.scheduled:hf"
    before, after = tmp_path / "before", tmp_path / "after"
    killed = [
        fleet.launch(app=app, probes=f"schedule.{which}=kill@{tmp_path / which}") for which in ("before", "after")
    ]
    wait_until(before.exists, 60)
    wait_until(after.exists, 60)
    for worker in killed:
        worker.wait()
    # Now the fleet has stopped, in the middle of its slots. Another one starts.
    fired = len(slots(fleet.inbox, "tick"))
    fleet.start(app=app)
    fleet.start(app=app)
    wait_until(lambda: len(slots(fleet.inbox, "tick")) >= fired + 3)
    found = slots(fleet.inbox, "tick")
    assert found == [found[0] + n * SECOND for n in range(len(found))]
    wait_until(lambda: fleet.inbox.one("select count(*) from holdfast.archive where kind = 'tick'") >= fired + 1)


async def test_a_worker_across_a_change_of_the_clocks(
    inbox: Inbox, clock: Clock, hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Berlin, 30 March 2031: 02:30 does not exist. Its job comes at 03:00, which is 01:00 UTC, and once."""
    monkeypatch.setattr(firing, "LONGEST", 0.1)  # it has to see what we do to the clock

    @hf.cron("30 2 * * *", tz="Europe/Berlin")
    @hf.cron("*/30 * * * *", tz="Europe/Berlin", name="half-hourly")
    @hf.task(name="nightly")
    async def nightly() -> None: ...

    change = datetime.fromisoformat("2031-03-30T01:00:00+00:00")
    half_past = change + timedelta(minutes=30)  # 03:30
    clock.run_from(change - timedelta(minutes=10))
    async with hf.worker():
        await until(lambda: len(inbox.rows("select name from holdfast.schedules where next_at is not null")) == 2)
        clock.run_from(change - 0.5 * SECOND)
        await until(lambda: slots(inbox, "nightly") == slots(inbox, "half-hourly") == [change])
        clock.run_from(half_past - 0.5 * SECOND)
        await until(lambda: slots(inbox, "half-hourly") == [change, half_past])
    assert slots(inbox, "nightly") == [change]


async def test_a_slot_is_fired_within_moments(inbox: Inbox, hf: Holdfast) -> None:
    @hf.every("1s")
    @hf.task(name="tick")
    async def tick() -> None: ...

    late = (
        "select extract(epoch from created_at - (headers ->> 'slot')::timestamptz)::float8 as late"
        " from holdfast.archive"
    )
    async with hf.worker(poll="1s"):
        await until(lambda: len(inbox.rows(late)) >= 4)
        # A busy machine is late at times, but not always.
        await until(lambda: any(row["late"] < 0.5 for row in inbox.rows(late)), 60)
    assert min(row["late"] for row in inbox.rows(late)) >= 0
