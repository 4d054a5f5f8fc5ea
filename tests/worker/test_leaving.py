"""However it is left, a worker inside an application ends: its keeper, its jobs, its place in the registry."""

import asyncio
import threading
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast keeper"]


class Application:
    """A worker in a task of its own, with a handler that takes for ever."""

    def __init__(self, hf: Holdfast, inbox: Inbox) -> None:
        self._hf = hf
        self._inbox = inbox
        self.started = asyncio.Event()
        self._endless = hf.task(name="endless")(self._sleep)

    async def _sleep(self) -> None:
        self.started.set()
        await asyncio.sleep(3600)

    async def _work(self) -> None:
        async with self._hf.worker(concurrency=2, lease=60, heartbeat=0.05, drain=60, poll=0.05):
            await asyncio.Event().wait()

    async def begin(self) -> tuple["asyncio.Task[None]", UUID]:
        job = await self._endless.enqueue()
        task = asyncio.create_task(self._work())
        await self.started.wait()
        task.cancel()
        await until(lambda: "draining" in self._inbox.workers().values())
        return task, job.id


@pytest.fixture
async def application(hf: Holdfast, inbox: Inbox) -> AsyncIterator[Application]:
    yield Application(hf, inbox)


async def test_cancelled_again_while_it_drains_it_stops_now(application: Application, inbox: Inbox) -> None:
    task, job = await application.begin()
    task.cancel()
    async with asyncio.timeout(15):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert keepers() == []
    assert list(inbox.workers().values()) == ["dead"]
    row = inbox.job(job)
    assert (row["status"], row["attempts"]) == ("pending", 0)


async def test_cancelled_again_and_again_its_keeper_ends_and_it_leaves(application: Application, inbox: Inbox) -> None:
    task, job = await application.begin()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.001)
    await until(lambda: keepers() == [] and list(inbox.workers().values()) == ["dead"], 15)
    await until(lambda: inbox.status(job) == "pending", 15)


def test_the_end_of_its_event_loop_ends_its_keeper(inbox: Inbox) -> None:
    """As after a second Ctrl-C: every task is cancelled, whatever it is at."""

    async def work() -> None:
        hf = Holdfast(inbox.url)
        task, _ = await Application(hf, inbox).begin()
        assert not task.done()
        assert len(keepers()) == 1
        await hf.close()

    asyncio.run(work())
    assert keepers() == []
    assert list(inbox.workers().values()) == ["dead"]


async def test_a_thread_that_does_not_end_keeps_its_row(hf: Holdfast, inbox: Inbox) -> None:
    """It may still make its effect: nobody else may have its job before the lease has run out."""
    started, gate = threading.Event(), threading.Event()

    @hf.task
    def deaf() -> None:
        started.set()
        gate.wait(60)

    @hf.task
    async def endless() -> None:
        await asyncio.sleep(3600)

    try:
        async with hf.worker(concurrency=2, lease=60, drain=0.1, poll=0.05) as worker:
            kept, given_back = await deaf.enqueue(), await endless.enqueue()
            await until(lambda: started.is_set() and inbox.count([kept.id, given_back.id], "processing") == 2)
        row = inbox.job(kept.id)
        assert (row["status"], row["claimed_by"], row["attempts"]) == ("processing", worker.name, 1)
        assert inbox.one("select lease_expires_at > now() + interval '20 s' from holdfast.inbox where id = %s", kept.id)
        assert inbox.status(given_back.id) == "pending"
    finally:
        gate.set()
