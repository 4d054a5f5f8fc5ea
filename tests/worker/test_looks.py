"""How many looks it takes to find a job: one, whichever course it is for, and also when its transaction stayed open."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.support.pooler import direct
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.loading import served
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.settings import WorkerSettings

NEVER = 3600.0
"""A pause so long that only the test ends it: so the test counts the worker's looks."""


@asynccontextmanager
async def sleeping_worker(hf: Holdfast) -> AsyncIterator[EmbeddedWorker]:
    """One that looks when it is woken, and never else."""
    worker = EmbeddedWorker(served(hf), WorkerSettings(poll_min=NEVER, poll_max=NEVER, notify=False))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def wake(worker: EmbeddedWorker, looked: Callable[[], int]) -> None:
    """Let it look, and wait until it has done so and sleeps again."""
    before = looked()
    worker.engine.wake()
    async with asyncio.timeout(25):
        while looked() == before:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)  # longer than it lies awake after a look in vain


@pytest.mark.parametrize("ordered", [False, True])
async def test_one_wake_up_is_a_look_for_jobs_of_either_kind(hf: Holdfast, inbox: Inbox, ordered: bool) -> None:
    @hf.task
    async def free() -> None:
        pass

    @hf.task(ordered=True)
    async def in_order() -> None:
        pass

    async with sleeping_worker(hf) as worker:
        for number in range(4):
            for _ in range(number % 2):  # were each look for one kind by turns, it would be the wrong one here or there
                await wake(worker, lambda: worker.engine.claimer.rescans)
            job = await (in_order if ordered else free).options(key="k").enqueue()
            worker.engine.wake()
            await until(lambda id=job.id: inbox.status(id) == "completed")  # type: ignore[misc]


@pytest.mark.parametrize("ordered", [False, True])
async def test_the_first_look_after_a_late_commit_finds_its_job(hf: Holdfast, inbox: Inbox, ordered: bool) -> None:
    @hf.task(ordered=ordered)
    async def late() -> None:
        pass

    async with sleeping_worker(hf) as worker:
        course = worker.engine.claimer.courses[ordered]
        producer = await asyncpg.connect(direct(inbox.url))
        async with producer.transaction():
            job = await late.on(producer, key="k").enqueue()
            while not any(transaction.aside for transaction in course.floor._open.values()):
                await wake(worker, lambda: course.rescans)
        worker.engine.wake()
        await until(lambda: inbox.status(job.id) == "completed")
        await producer.close()
