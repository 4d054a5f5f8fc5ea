"""Start and signal instances through every door: own connections, and every kind of a caller's."""

import asyncio
from typing import Any

import pytest
from tests.enqueue.doors import CALLERS, settle
from tests.support.workers import Inbox

from holdfast import Flow, Holdfast, IdempotencyConflict, InvalidInput, NotFound, Signalled, Workflow
from holdfast.testing import drain, run_until_parked


@pytest.fixture
def checkout(hf: Holdfast) -> Workflow[Any, str]:
    @hf.workflow
    async def checkout(flow: Flow, order_id: int) -> str:
        shipped = await flow.wait("shipped", dict[str, str])
        return f"{order_id} by {shipped['carrier'] if shipped else ''}"

    return checkout


@pytest.mark.parametrize("door", CALLERS)
async def test_starts_and_signals_commit_with_the_caller(
    hf: Holdfast, checkout: Workflow[Any, str], inbox: Inbox, migrated_url: str, door: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with CALLERS[door](migrated_url) as seat:
            await settle(checkout.on(seat.connection, id="checkout:1").start(order_id=1))
            raise ZeroDivisionError
    assert inbox.one("select count(*) from holdfast.inbox") == 0
    async with CALLERS[door](migrated_url) as seat:
        instance = await settle(checkout.on(seat.connection, id="checkout:1").start(order_id=1))
        again = await settle(checkout.on(seat.connection, id="checkout:1").start(order_id=1))
        many = await settle(
            checkout.on(seat.connection).start_many(
                [{"order_id": 2}, {"order_id": 3}], ids=["checkout:2", "checkout:3"]
            )
        )
    assert (again.job_id, again.id, again.existed, instance.existed) == (instance.job_id, "checkout:1", True, False)
    assert [each.id for each in many] == ["checkout:2", "checkout:3"]
    assert (await run_until_parked(hf, instance)).waits == ("signal:shipped",)

    with pytest.raises(ZeroDivisionError):
        async with CALLERS[door](migrated_url) as seat:
            sent = await settle(hf.on(seat.connection).signal(instance, "shipped", {"carrier": "nobody"}))
            assert sent is Signalled.WOKEN
            raise ZeroDivisionError
    assert len(await drain(hf)) == 0
    async with CALLERS[door](migrated_url) as seat:
        on = hf.on(seat.connection)
        with pytest.raises(NotFound, match="There is no workflow instance 'checkout:9'"):
            await settle(on.signal("checkout:9", "shipped"))
        with pytest.raises(InvalidInput):
            await settle(on.signal("checkout:1", ""))
        # Neither error has ended the caller's transaction.
        assert await settle(on.signal("checkout:1", "shipped", {"carrier": "DHL"}, signal_id="a")) is Signalled.WOKEN
        assert await settle(on.signal("checkout:1", "shipped", {"carrier": "DHL"}, signal_id="a")) is Signalled.KNOWN
    await drain(hf)
    assert await instance.result() == "1 by DHL"


async def test_one_instance_for_one_id(hf: Holdfast, checkout: Workflow[Any, str]) -> None:
    named = checkout.options(id="checkout:1")
    started = await asyncio.gather(*(named.start(order_id=1) for _ in range(10)))
    assert len({each.job_id for each in started}) == 1
    assert sum(not each.existed for each in started) == 1
    with pytest.raises(IdempotencyConflict):
        await named.start(order_id=2)
    (instance,) = {each.job_id: each for each in started}.values()
    assert await instance.status() == "pending"
    assert (await instance.state()).id == instance.job_id


async def test_many(hf: Holdfast, checkout: Workflow[Any, str]) -> None:
    rows = [{"order_id": n} for n in range(600)]
    assert len({each.job_id for each in await checkout.start_many(rows)}) == 600
    first = await checkout.start_many(rows[:3], ids=["a", "b", "c"])
    again = await checkout.start_many(rows[1:4], ids=["b", "c", "d"])
    assert [each.existed for each in again] == [True, True, False]
    assert [each.job_id for each in again[:2]] == [each.job_id for each in first[1:]]


async def test_sleeping_instances_are_no_depth(hf: Holdfast, checkout: Workflow[Any, str]) -> None:
    @hf.task
    async def other() -> None: ...

    instance = await checkout.options(id="a").start(order_id=1)
    await run_until_parked(hf, instance)
    await checkout.options(id="b").start(order_id=2)
    await other.options(delay="1h").enqueue()
    (row,) = [dict(row) for row in await hf._calls.run("views", "queues")]
    assert (row["pending"], row["due"], row["scheduled"], row["sleeping"]) == (2, 1, 1, 1)


async def test_an_id_that_belongs_to_a_task(hf: Holdfast, checkout: Workflow[Any, str]) -> None:
    @hf.task
    async def other() -> None: ...

    await other.options(idempotency_key="a").enqueue()
    await checkout.start(order_id=1)
    await drain(hf, limit=1)
    await other.options(idempotency_key="b").enqueue()
    with pytest.raises(InvalidInput, match="is not a workflow"):
        await hf.signal("b", "shipped")


async def test_restarting(hf: Holdfast, checkout: Workflow[Any, str]) -> None:
    ran: list[int] = []

    async def note(n: int) -> None:
        ran.append(n)

    @hf.workflow
    async def loops(flow: Flow) -> None:
        for n in range(3):
            await flow.step("note", note, n)
        await flow.wait("go")

    instance = await loops.options(id="a").start()
    await run_until_parked(hf, instance)
    with pytest.raises(InvalidInput, match=r"^step: instance a has no step other"):
        await hf.restart_instance("a", "other")
    with pytest.raises(InvalidInput, match="no live workflow instance x"):
        await hf.restart_instance("x", "note")
    assert await hf.restart_instance(instance, "note#2") == 3
    await run_until_parked(hf, instance)
    assert ran == [0, 1, 2, 1, 2]
    await hf.cancel_instance(instance)
    await drain(hf)
    with pytest.raises(NotFound, match="it has ended"):
        await hf.resume_instance(instance)
