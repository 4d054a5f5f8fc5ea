"""The registry and its heartbeats: a worker that it has lost registers again, and one that it keeps draining drains."""

import asyncio

import pytest
from tests.support.inbox import Session, until_waiting
from tests.support.waiting import until, wait_until
from tests.support.workers import Fleet, Inbox

from holdfast import Holdfast, SchemaError
from holdfast.db.link import Link
from holdfast.ownership import members


@pytest.fixture
def hf(hf: Holdfast) -> Holdfast:
    @hf.task
    async def nothing() -> None:
        pass

    return hf


async def test_a_worker_that_was_forgotten_registers_again(hf: Holdfast, inbox: Inbox) -> None:
    async with hf.worker(lease=1, heartbeat=0.05) as worker:
        (before,) = inbox.rows("select id, status, metadata - 'counters' as metadata from holdfast.workers")
        inbox.rows("delete from holdfast.workers")
        await until(lambda: inbox.workers() == {worker.name: "alive"})
        (after,) = inbox.rows("select id, status, metadata - 'counters' as metadata from holdfast.workers")
        assert after == before
    assert inbox.workers() == {worker.name: "dead"}


def test_so_does_one_under_a_supervisor(inbox: Inbox, fleet: Fleet) -> None:
    worker = fleet.start(lease=2, options=["--heartbeat", "0.2"])
    (name,) = fleet.names(worker)
    inbox.rows("delete from holdfast.workers")
    wait_until(lambda: inbox.workers() == {name: "alive"})
    inbox.wait(inbox.enqueue("effect"))
    assert worker.drain() == 0
    assert inbox.workers() == {name: "dead"}


async def test_one_that_has_left_is_not_missed(hf: Holdfast, inbox: Inbox) -> None:
    """Between its last word and the end of its process, its supervisor still beats for it."""
    link = Link(hf._database, "keeper")
    async with hf.worker(lease=1) as worker:
        pass
    assert await members.heartbeat(link, {worker.name: {}, "another": {}}) == {worker.name: "dead"}
    await link.close()
    assert inbox.workers() == {worker.name: "dead"}


async def test_nor_one_that_leaves_at_that_moment(one: Session, two: Session) -> None:
    await one.run("ownership", "register", "w1", "{}")
    transaction = one.connection.transaction()
    await transaction.start()
    await one.run("ownership", "leave", "w1", "dead", None)
    beating = asyncio.create_task(two.run("ownership", "heartbeat", ["w1"], ["{}"]))
    await until_waiting(one.connection, two.pid)
    await transaction.commit()
    assert [tuple(row) for row in await beating] == [("w1", "dead")]


def test_a_drain_says_nothing_of_the_registry(fleet: Fleet) -> None:
    workers = [fleet.start(lease=2, options=["--heartbeat", "0.05"]) for _ in range(2)]
    for worker in workers:
        assert worker.drain() == 0
        assert "registry" not in worker.log


async def test_one_that_drains_does_not_come_back(hf: Holdfast, inbox: Inbox) -> None:
    async with hf.worker(lease=1, heartbeat=0.05) as worker:
        worker.engine.drain()
        inbox.rows("delete from holdfast.workers")
        worker.engine.register_again()
        await asyncio.sleep(0)
        await worker.engine.stop()
        assert inbox.workers() == {}


@pytest.mark.parametrize(("name", "value"), [("bucket_count", "360"), ("hash_version", "2")])
async def test_a_worker_refuses_buckets_that_are_not_its_own(hf: Holdfast, inbox: Inbox, name: str, value: str) -> None:
    # Requirement 65.
    inbox.rows("update holdfast.settings set value = to_jsonb(%s::int) where name = %s", value, name)
    with pytest.raises(SchemaError, match=rf"{name} .* is {value}, this release works with \d+"):
        async with hf.worker():
            pass
    assert inbox.workers() == {}
    inbox.rows("delete from holdfast.settings where name = %s", name)
    with pytest.raises(SchemaError, match=f"{name} .* is missing"):
        async with hf.worker():
            pass
