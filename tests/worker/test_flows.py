"""How a worker runs instances: what reaches them from outside while they run."""

import asyncio
import gc
import threading
from typing import Any, cast
from uuid import uuid4

import pytest
from tests.support.waiting import until

from holdfast.definitions import define
from holdfast.errors import Cancelled, LeaseLost
from holdfast.flow.flow import Flow
from holdfast.model.flow import FlowEnd, History, Standing, StepRecord
from holdfast.model.job import Claim
from holdfast.model.occurrences import Occurrences
from holdfast.model.outcome import Ended, Final
from holdfast.worker.attempts.deciding import Draining
from holdfast.worker.attempts.runner import _forget_cancellation
from holdfast.worker.attempts.running import Running
from holdfast.worker.flows.way import AsFlow, FlowJournal


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


async def test_a_step_that_waits_for_a_thread_is_not_overdue() -> None:
    """The pool has one thread. If its queue counted, many steps at once would be overdue, and their process killed."""
    left: list[float] = []
    turns = threading.Semaphore(0)
    timeouts = 3000, 2000, 1000

    async def three(flow: Flow) -> None:
        await flow.gather(*(flow.step(f"step {each}", turns.acquire, timeout=each) for each in timeouts))

    way, running = made(SlowRecords(), "three", 1)
    running.watch_steps = lambda seconds: left.append(seconds) if seconds is not None else None
    run = asyncio.create_task(way.run(running, define(three, flow=Flow)))
    try:
        for this, later in (3000, 2000), (2000, 1000), (1000, 0):
            await until(lambda: min(left, default=this + 1) <= this)  # noqa: B023 - it is asked now
            assert min(left) > later, "those that wait for the thread are not watched yet"
            turns.release()
    finally:
        turns.release(3)
    assert isinstance(await run, FlowEnd)
    await way.close()


async def test_a_stop_that_comes_while_steps_are_committed_comes_after_the_last_of_them() -> None:
    way, running = made(SlowRecords(), "nothing", 1)
    hand = running.hand = asyncio.create_task(asyncio.sleep(60))
    journal = FlowJournal(way, running)
    with journal._stopped_later():
        with journal._stopped_later():
            running.stop(LeaseLost("gone"))
        assert hand.cancelling() == 0, "the other one is still being written"
    assert hand.cancelling() == 1


class GatedRecords(SlowRecords):
    """Steps are written when the test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.gate = asyncio.Event()

    async def record(self, claim: Claim, records: list[StepRecord], alone: bool) -> Standing:
        self.sent += [record.name for record in records]
        await self.gate.wait()
        return Standing(cancelled=False, paused=False)


async def test_a_drain_stores_what_has_ended_while_others_were_being_written() -> None:
    records, ends = GatedRecords(), asyncio.Event()

    async def branches(flow: Flow) -> None:
        await flow.gather(two_steps(flow), flow.step("slow", asyncio.sleep, 60), flow.step("c", ends.wait))

    way, running = made(records, "branches", 1)
    running.hand = asyncio.create_task(way.run(running, define(branches, flow=Flow)))  # type: ignore[arg-type]
    await until(lambda: records.sent == ["a"])
    ends.set()
    for _ in range(5):
        await asyncio.sleep(0)  # c ends
    running.stop(Draining("the worker stops"))
    await asyncio.sleep(0)
    records.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await running.hand
    assert records.sent == ["a", "c"]


@pytest.mark.parametrize("ends", [True, False])
async def test_a_stop_that_comes_while_the_last_step_is_committed_does_not_reach_the_next_job(ends: bool) -> None:
    way, running = made(SlowRecords(), "nothing", 1)
    running.tell_steps = lambda reason: None  # it runs

    stopped: list[bool] = []

    async def hand() -> None:
        with FlowJournal(way, running)._stopped_later():
            running.stop(LeaseLost("gone"))
        if ends:
            running.tell_steps = None
            _forget_cancellation()
        try:
            await asyncio.sleep(0.01)
            stopped.append(False)
        except asyncio.CancelledError:
            stopped.append(True)

    running.hand = asyncio.create_task(hand())
    await running.hand
    assert stopped == [not ends]


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
