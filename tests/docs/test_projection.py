"""The example of a projection: through failures, redeliveries and late commits, it equals its rebuild from the log."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from examples.projection import reports, shop
from examples.projection.demo import catch_up
from examples.projection.rebuild import content, rebuild, swap
from examples.projection.reports import LIVE, MODEL, NEXT
from tests.support.pooler import direct

from holdfast import Event
from holdfast.testing import use_database
from holdfast.transports import cloudevents

Connections = tuple[asyncpg.Connection, asyncpg.Connection]


@pytest.fixture
async def both(
    migrated_url: str, second_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connections]:
    monkeypatch.chdir(tmp_path)  # the bus is a file here
    shop_db, reports_db = await asyncpg.connect(direct(migrated_url)), await asyncpg.connect(direct(second_url))
    await reports_db.execute("update holdfast.settings set value = '0.02' where name = 'backoff_unit'")
    await shop_db.execute(shop.TABLES)
    await reports_db.execute(MODEL.format(model=LIVE))
    async with use_database(shop.hf, migrated_url), use_database(reports.hf, second_url):
        yield shop_db, reports_db
    await shop_db.close()
    await reports_db.close()


async def sell(url: str, orders: range, dice: random.Random) -> None:
    """Orders in parallel: some transactions stay open for a while, some roll back."""

    async def one(order_id: int) -> None:
        connection = await asyncpg.connect(direct(url))
        try:
            await shop.place(connection, order_id, "abcd"[order_id % 4], 100 * order_id)
            for status in dice.choice([[], ["paid"], ["paid", "cancelled"], ["cancelled"], ["cancelled", "paid"]]):
                rolls_back = connection.transaction()
                await rolls_back.start()
                await shop.change(connection, order_id, status)
                await rolls_back.rollback()
                async with connection.transaction():
                    await shop.change(connection, order_id, status)
                    await asyncio.sleep(dice.uniform(0, 0.1))
        finally:
            await connection.close()

    await asyncio.gather(*(one(order_id) for order_id in orders))


def failing(monkeypatch: pytest.MonkeyPatch, dice: random.Random) -> None:
    """Some attempts fail between the change of the model and the checkpoint."""
    save = reports.save_checkpoint

    async def sometimes(tx: asyncpg.Connection, model: str, key: str, event: str) -> None:
        if dice.random() < 0.3:
            raise OSError("in the middle")
        await save(tx, model, key, event)

    monkeypatch.setattr(reports, "save_checkpoint", sometimes)


async def run(both: Connections, url: str) -> None:
    """Sell, and let everything be delivered three times."""
    dice = random.Random(8)
    async with shop.hf.worker(poll=0.05):
        await sell(url, range(1, 21), dice)
    await catch_up(*both)
    for _ in range(2):
        reports.consumer.rewind()
        await catch_up(*both)


async def differs(both: Connections) -> bool:
    """Is the live model another than its rebuild?"""
    await reports.hf.pause("in.shop")
    await rebuild(*both)
    return await content(both[1], LIVE) != await content(both[1], NEXT)


async def test_the_model_equals_its_rebuild(
    both: Connections, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, random.Random(1))
    await run(both, direct(migrated_url))
    assert not await differs(both)
    assert len((await content(both[1], LIVE))["orders"]) == 20
    await swap(both[1])
    await reports.hf.resume("in.shop")
    await sell(direct(migrated_url), range(21, 31), random.Random(2))
    await catch_up(*both)
    assert not await differs(both)
    assert len((await content(both[1], LIVE))["orders"]) == 30


async def test_a_rebuild_while_events_arrive(both: Connections, migrated_url: str) -> None:
    """It takes each key to where the live model is, and the rest follows after the pause."""
    url = direct(migrated_url)
    async with shop.hf.worker(poll=0.05), reports.hf.worker(poll=0.05):
        selling = asyncio.create_task(sell(url, range(1, 41), random.Random(3)))
        while not (await content(both[1], LIVE))["orders"]:
            await asyncio.sleep(0.01)
        assert not await differs(both)
        await swap(both[1])
        await reports.hf.resume("in.shop")
        await selling
    await catch_up(*both)
    assert not await differs(both)
    assert len((await content(both[1], LIVE))["orders"]) == 40


async def test_without_the_ids_a_redelivery_is_counted_and_that_is_seen(
    both: Connections, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    structured, numbers = cloudevents.structured, iter(range(1000))
    monkeypatch.setattr(
        "examples.bus.structured", lambda m: structured(m).replace(b'"id":"', b'"id":"%d' % next(numbers))
    )
    await shop.place(both[0], 1, "a", 100)
    await catch_up(*both)
    await shop.hf.replay("bus", event=await both[0].fetchval("select id from holdfast.events"))
    monkeypatch.setattr(reports, "apply", _apply_again(reports.apply))
    await catch_up(*both)
    assert (await content(both[1], LIVE))["customers"] == [("a", 2, 0)]
    with pytest.raises(LookupError):  # nor is the checkpoint an event of the log
        await differs(both)


def _apply_again(apply: Any) -> Any:
    async def without_the_primary_key(tx: asyncpg.Connection, model: str, type: str, data: dict[str, Any]) -> None:
        await tx.execute(f"delete from {model}.orders where id = $1", data["order_id"])
        await apply(tx, model, type, data)

    return without_the_primary_key


async def test_with_two_commits_a_failure_is_counted_and_that_is_seen(
    both: Connections, migrated_url: str, second_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, random.Random(1))
    apply = reports.apply

    async def in_its_own_commit(tx: asyncpg.Connection, model: str, type: str, data: dict[str, Any]) -> None:
        if model == NEXT:
            await apply(tx, model, type, data)
            return
        change = _apply_again(apply) if type == "order.placed" else apply
        other = await asyncpg.connect(direct(second_url))
        try:
            await change(other, model, type, data)
        finally:
            await other.close()

    monkeypatch.setattr(reports, "apply", in_its_own_commit)
    await run(both, direct(migrated_url))
    assert await differs(both)


async def test_a_log_that_does_not_reach_back_is_an_error(both: Connections) -> None:
    await shop.place(both[0], 1, "a", 100)
    await catch_up(*both)
    await both[0].execute("delete from holdfast.events")
    with pytest.raises(LookupError, match="does not reach back"):
        await rebuild(*both)


def test_an_event_out_of_order_is_an_error() -> None:
    class Nothing:
        async def fetchrow(self, *arguments: object) -> None:
            return None

    event = Event(id="1", source="shop", type="order.paid", data={"order_id": 1}, key="order:1")
    with pytest.raises(LookupError, match=r"before order\.placed"):
        asyncio.run(reports.project(Nothing(), event))  # type: ignore[arg-type]
