"""Async tests. The fixture closes the application's connections on the event loop that has opened them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from shop import book, hf, report, send_receipt, sent

from holdfast.testing import (
    assert_enqueued,
    assert_not_enqueued,
    drain,
    fire_schedules,
    frozen_clock,
    make_context,
    use_database,
)

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture(autouse=True)
async def on_this_loop(holdfast_clean: str) -> AsyncIterator[None]:
    async with use_database(hf, holdfast_clean):
        yield


async def test_a_payment_sends_a_receipt() -> None:
    await book.enqueue(1, 1999)
    await assert_enqueued(book, order_id=1, cents=1999, count=1)
    drained = await drain(hf)
    assert [job.kind for job in drained] == ["book", "send_receipt"]
    assert sent == ["receipt for 1"]


async def test_the_job_of_another_test_is_gone() -> None:
    await assert_not_enqueued(book)
    await book.enqueue(1, 5)
    assert len(await drain(hf, limit=1)) == 1
    await assert_enqueued(send_receipt, order_id=1, key="order:1")


async def test_the_report_comes_at_seven() -> None:
    async with frozen_clock(hf, datetime(2030, 1, 1, 5, 30, tzinfo=UTC)) as clock:
        await clock.advance("1h")
        await fire_schedules(hf)
        await assert_enqueued(report, count=1)
        await drain(hf)
    assert sent == ["report"]


async def test_a_handler_by_itself() -> None:
    await send_receipt(make_context(send_receipt, done=["receipt:7"]), 7)
    assert sent == []
