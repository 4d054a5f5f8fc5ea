"""The next job of a key starts because the last one has ended here, and for no other reason.

Looks along the lanes, patrols and housekeeping would find it, too, some time later; here they are out of the way.
"""

from typing import Any

import pytest
from tests.support.waiting import until

from holdfast import Context, Fail, Holdfast, TxContext
from holdfast.inbox import guarded
from holdfast.loading import served
from holdfast.worker.claiming import loops as claiming
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.settings import WorkerSettings

NEVER = 3600.0
WITHIN = 10.0
"""Seconds for ten jobs: milliseconds each on a quiet machine."""


async def work_off(hf: Holdfast, settings: WorkerSettings, ran: list[int]) -> None:
    """Let a worker run until ten jobs have."""
    worker = EmbeddedWorker(served(hf), settings)
    await worker.start()
    try:
        await until(lambda: len(ran) >= 10, WITHIN)
    finally:
        await worker.stop()


@pytest.mark.parametrize("how", ["returns", "in a transaction", "gives up", "dies"])
async def test_a_key_is_handed_over_however_its_jobs_end(
    hf: Holdfast, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "PATROL_EVERY", NEVER)
    ran: list[int] = []

    @hf.task(ordered=True, max_attempts=1)
    async def plain(ctx: Context, n: int) -> Any:
        ran.append(n)
        if how == "dies":
            raise RuntimeError("no")
        return Fail("enough") if how == "gives up" else None

    @hf.task(ordered=True)
    async def tx(ctx: TxContext, n: int) -> None:
        ran.append(n)

    step = tx if how == "in a transaction" else plain
    await step.options(key="k").enqueue_many([{"n": n} for n in range(10)])
    settings = WorkerSettings(
        concurrency=2, lease=300, poll_min=NEVER, poll_max=NEVER, housekeeping=NEVER, notify=False
    )
    await work_off(hf, settings, ran)
    assert ran == list(range(10))


async def test_a_key_without_a_next_job_leaves_its_room_to_other_keys(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "ROOM_AGAIN", NEVER)
    ran: list[int] = []

    @hf.task(ordered=True)
    async def step(ctx: TxContext, n: int) -> None:
        ran.append(n)

    for n in range(10):
        await step.options(key=f"key {n}").enqueue(n)
    # One hand: while its key may have a next job, there is no room for the job of another.
    settings = WorkerSettings(concurrency=1, lease=300, housekeeping=NEVER, notify=False)
    await work_off(hf, settings, ran)
    assert sorted(ran) == list(range(10))
