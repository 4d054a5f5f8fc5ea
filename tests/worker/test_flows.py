"""How a worker runs instances: what reaches them from outside while they run."""

import asyncio
from typing import Any, cast
from uuid import uuid4

from holdfast.definitions import define
from holdfast.errors import Cancelled
from holdfast.flow.flow import Flow
from holdfast.model.flow import FlowEnd, History, Standing, StepRecord
from holdfast.model.job import Claim
from holdfast.model.outcome import Ended, Final
from holdfast.worker.attempts.running import Running
from holdfast.worker.flows.way import AsFlow


class SlowRecords:
    """Their histories come when the test wants it."""

    draining = False

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def load(self, claim: Claim) -> History:
        self.asked.set()
        await self.answer.wait()
        return History()

    async def record(self, claim: Claim, records: list[StepRecord], alone: bool) -> Standing:
        return Standing(cancelled=False, paused=False)


async def nothing(flow: Flow) -> str:
    return "done"


async def test_cancelled_while_its_history_is_loaded_it_is_not_stopped() -> None:
    # Stopped there, it would end as cancelled, and what it has done would not be undone.
    records = SlowRecords()
    unused = cast(Any, None)
    way = AsFlow(unused, unused, unused, unused, cast(Any, records), 1)
    claim = Claim("w1", uuid4(), 2, 1, 1, 5, "nothing", 1, "{}", "default", "", None, None)
    running = Running(claim, 0, cast(Any, asyncio.current_task()), True, 0)
    run = asyncio.create_task(way.run(running, define(nothing, flow=Flow)))
    await records.asked.wait()
    running.stop(Cancelled("cancelled while it ran"))
    assert running.reason is None
    records.answer.set()
    ended = await run
    # Its code ran, and what it did was undone: nothing, here.
    assert isinstance(ended, FlowEnd) and isinstance(ended.end, Ended) and ended.end.status is Final.CANCELLED
