"""How a worker runs instances: what reaches them from outside while they run."""

import asyncio
import gc
from typing import Any, cast
from uuid import uuid4

from holdfast.definitions import define
from holdfast.errors import Cancelled
from holdfast.flow.flow import Flow
from holdfast.model.flow import FlowEnd, History, Standing, StepRecord
from holdfast.model.job import Claim
from holdfast.model.occurrences import Occurrences
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

    def holds(self, claim: Claim) -> bool:
        return True


async def nothing(flow: Flow) -> str:
    return "done"


async def two_steps(flow: Flow) -> None:
    await flow.step("a", asyncio.sleep, 0)
    await flow.step("b", asyncio.sleep, 0)


def made(records: SlowRecords, kind: str, generation: int) -> tuple[AsFlow, Running]:
    unused = cast(Any, None)
    way = AsFlow(unused, unused, unused, Occurrences(), cast(Any, records), 1)
    claim = Claim("w1", uuid4(), generation, 1, 1, 5, kind, 1, "{}", "default", "", None, None)
    return way, Running(claim, 0, cast(Any, asyncio.current_task()), True, 0)


async def test_cancelled_while_its_history_is_loaded_it_is_not_stopped() -> None:
    # Stopped there, it would end as cancelled, and what it has done would not be undone.
    records = SlowRecords()
    way, running = made(records, "nothing", 2)
    run = asyncio.create_task(way.run(running, define(nothing, flow=Flow)))
    await records.asked.wait()
    running.stop(Cancelled("cancelled while it ran"))
    assert running.reason is None
    records.answer.set()
    ended = await run
    # Its code ran, and what it did was undone: nothing, here.
    assert isinstance(ended, FlowEnd) and isinstance(ended.end, Ended) and ended.end.status is Final.CANCELLED


async def test_a_run_leaves_nothing_to_the_search_for_cycles() -> None:
    """With thousands of instances a second, that search took a fifth of a worker's time."""
    definition = define(two_steps, flow=Flow)
    way, running = made(SlowRecords(), "two_steps", 1)
    assert isinstance(await way.run(running, definition), FlowEnd)  # caches are filled
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            way, running = made(SlowRecords(), "two_steps", 1)
            assert isinstance(await way.run(running, definition), FlowEnd)
        assert gc.collect() < 100
    finally:
        gc.enable()
