"""The example workflows with a clock that the test moves: days and months take no time."""

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from examples.workflows import approval, checkout, fan_out, polling
from tests.support.pooler import direct

from holdfast.testing import drain, frozen_clock, use_database


@pytest.fixture
def tables(migrated_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(direct(migrated_url), autocommit=True) as connection:
        connection.execute(checkout.TABLES.encode())
        connection.execute("insert into stock values ('lamp', 10)")
        yield connection


@pytest.fixture(autouse=True)
async def on_this_database(migrated_url: str) -> AsyncIterator[None]:
    for outside in (checkout.mail, approval.asked, polling.paid, polling.places, polling.asked):
        outside.clear()
    async with (
        use_database(checkout.hf, migrated_url),
        use_database(approval.hf, migrated_url),
        use_database(fan_out.hf, migrated_url),
        use_database(polling.hf, migrated_url),
    ):
        yield


async def test_an_order_that_is_not_shipped(tables: psycopg.Connection) -> None:
    order = await checkout.checkout.options(id="checkout:1").start(order_id=1, item="lamp", cents=4900)
    async with frozen_clock(checkout.hf) as clock:
        await drain(checkout.hf)
        assert checkout.mail == {"checkout:1/receipt": "receipt for order 1"}
        await clock.advance("71h")
        await drain(checkout.hf)
        assert tables.execute("select count(*) from holdfast.workflows where state = 'waiting'").fetchone() == (1,)
        await clock.advance("2h")
        await drain(checkout.hf)
    assert await order.result(timeout="30s") == "not shipped in time"
    assert tables.execute("select free, (select sum(cents) from payments) from stock").fetchone() == (9, 4900)


async def test_an_order_that_is_cancelled(tables: psycopg.Connection) -> None:
    order = await checkout.checkout.options(id="checkout:2").start(order_id=2, item="lamp", cents=4900)
    await drain(checkout.hf)
    await checkout.hf.cancel(order.job_id)
    await drain(checkout.hf)
    assert tables.execute("select free, (select count(*) from payments) from stock").fetchone() == (10, 0)


@pytest.mark.parametrize("answers", [1, 2, 0])
async def test_an_approval(answers: int) -> None:
    instance = await approval.purchase.options(id="purchase:1").start("a desk", ["Ada", "Bob"])
    async with frozen_clock(approval.hf) as clock:
        await drain(approval.hf)
        if answers == 1:
            await approval.answer("purchase:1", False, "Ada")
        else:
            await clock.advance("49h")
            await drain(approval.hf)
            assert approval.asked == ["Ada: may we buy a desk?", "Bob: may we buy a desk?"]
        if answers == 2:
            for _ in range(2):
                await approval.answer("purchase:1", True, "Bob")
        else:
            await clock.advance("49h")
        await drain(approval.hf)
    expected = {1: "rejected by Ada", 2: "approved by Bob", 0: "nobody answered"}[answers]
    assert await instance.result(timeout="30s") == expected


async def test_an_album() -> None:
    instance = await fan_out.album.start(pages=20)
    await drain(fan_out.hf)
    assert await instance.result(timeout="30s") == "20 pages, 20190 bytes"


@pytest.mark.parametrize("pays", [12, None])
async def test_an_invoice(pays: int | None) -> None:
    instance = await polling.invoice.start(7)
    async with frozen_clock(polling.hf) as clock:
        for day in range(31):
            if day == pays:
                polling.paid.add(7)
            await drain(polling.hf)
            await clock.advance("1d")
    assert await instance.result(timeout="30s") == ("overdue" if pays is None else f"paid after {pays} days")
    assert len(polling.asked) == (30 if pays is None else pays + 1)


async def test_a_parcel(migrated_url: str) -> None:
    instance = await polling.parcel.start("X1")
    async with frozen_clock(polling.hf) as clock:
        for _ in range(100):
            await drain(polling.hf)
            await clock.advance("10m")
        with psycopg.connect(direct(migrated_url)) as connection:
            assert connection.execute("select count(*), max(attempts) from holdfast.steps").fetchone() == (1, 0)
        polling.places["X1"] = "the neighbours"
        await drain(polling.hf)
    assert await instance.result(timeout="30s") == "delivered to the neighbours"
    assert len(polling.asked) == 101
