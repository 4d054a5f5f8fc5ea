"""`assert_enqueued` and `assert_not_enqueued`: what waits, also in an open transaction, and messages that show it."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from unittest.mock import ANY

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.support.pooler import direct
from tests.support.workers import Inbox

from holdfast import Holdfast, InvalidInput
from holdfast.testing import (
    assert_enqueued,
    assert_enqueued_sync,
    assert_not_enqueued,
    assert_not_enqueued_sync,
    drain,
)


@dataclass
class Address:
    city: str


async def test_arguments_and_options(hf: Holdfast) -> None:
    @hf.task(queue="mail")
    async def send(order_id: int, to: Address, tags: set[str] = frozenset()) -> None: ...  # type: ignore[assignment]

    due = datetime.now(UTC).replace(microsecond=123456) + timedelta(days=1)
    await send.options(key="order:1", headers={"trace": "a", "more": "b"}, priority=0).enqueue(1, Address("Umeå"))
    await send.options(at=due, idempotency_key="once").enqueue(2, Address("Malmö"), {"x"})
    await send.options(delay="5m").enqueue(3, Address("Kiruna"))

    (found,) = await assert_enqueued(send, order_id=1)
    assert (found.arguments["to"], found.key, found.queue) == (Address("Umeå"), "order:1", "mail")
    assert len(await assert_enqueued(send)) == 3
    await assert_enqueued(send, order_id=1, to=Address("Umeå"), key="order:1", queue="mail", priority=0, count=1)
    await assert_enqueued(send, order_id=1, to={"city": "Umeå"}, headers={"trace": "a"})
    await assert_enqueued(send, order_id=lambda n: n > 1, count=2)
    await assert_enqueued(send, order_id=2, tags={"x"}, at=due, idempotency_key="once", to=ANY)
    await assert_enqueued(send, order_id=2, at=lambda at: at > datetime.now(UTC))
    await assert_enqueued(send, order_id=3, delay="5m", key=None)
    await assert_enqueued(send, order_id=3, within="10m")
    await assert_enqueued(send, within="10m", count=2)
    await assert_not_enqueued(send, order_id=3, within="1m")
    await assert_not_enqueued(send, order_id=3, delay="6m")
    await assert_not_enqueued(send, order_id=1, headers={"trace": "b"})
    await assert_not_enqueued(send, order_id=4)
    await assert_not_enqueued(send, arguments={"order_id": 1}, key="order:2")


async def test_the_message_shows_the_difference(hf: Holdfast) -> None:
    @hf.task
    async def send(order_id: int, cents: int) -> None: ...

    @hf.task
    async def other() -> None: ...

    done = await send.enqueue(0, 0)
    await drain(hf)
    far = await send.options(key="b").enqueue(2, 7)
    near = await send.options(key="order:1", delay="1h").enqueue(2, 5)
    await other.enqueue()
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(send, order_id=1, cents=5, key="order:1")
    assert _at_once(caught.value) == (
        "expected a job of send to be enqueued with order_id=1, cents=5, key='order:1'; found none.\n"
        "2 jobs of send wait that differ:\n"
        f"  {near.id}: send(order_id=2, cents=5), queue 'default', key 'order:1', due in 1:00:00\n"
        "      order_id is 2, expected 1\n"
        f"  {far.id}: send(order_id=2, cents=7), queue 'default', key 'b'\n"
        "      order_id is 2, expected 1\n"
        "      cents is 7, expected 5\n"
        "      key is 'b', expected 'order:1'\n"
        "Also there: 1 × other (pending), 1 × send (completed).\n"
        "A job of an open transaction is seen only there: pass on=connection, or commit first."
    )
    assert done.id not in {far.id, near.id}
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(send, order_id=2, count=1)
    assert _at_once(caught.value) == (
        "expected exactly 1 job of send to be enqueued with order_id=2; found 2.\n"
        f"  {far.id}: send(order_id=2, cents=7), queue 'default', key 'b'\n"
        f"  {near.id}: send(order_id=2, cents=5), queue 'default', key 'order:1', due in 1:00:00\n"
        "Also there: 1 × other (pending), 1 × send (completed)."
    )
    with pytest.raises(AssertionError) as caught:
        await assert_not_enqueued(other)
    assert str(caught.value).startswith("expected no job of other to be enqueued; found 1.\n")
    with pytest.raises(AssertionError, match=r"its delay is 1:00:00, expected 0:10:00"):
        await assert_enqueued(send, cents=5, delay="10m")
    with pytest.raises(AssertionError, match=r"it is due in (1:00:00|0:59:\d\d), expected within 10m"):
        await assert_enqueued(send, cents=5, within="10m")
    with pytest.raises(AssertionError, match=r"order_id is 2, expected what <lambda> accepts"):
        await assert_enqueued(send, order_id=lambda n: n > 5)


def _at_once(error: BaseException) -> str:
    """Its message, as if no time had passed since the enqueue."""
    return re.sub(r"0:59:\d\d", "1:00:00", str(error))


async def test_the_message_is_short(hf: Holdfast) -> None:
    @hf.task
    async def send(n: int) -> None: ...

    await send.enqueue_many([{"n": n} for n in range(50)])
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(send, n=99)
    lines = str(caught.value).splitlines()
    assert "  … and 45 more, which differ in more" in lines
    assert len(lines) < 20
    with pytest.raises(AssertionError, match="and 45 more"):
        await assert_not_enqueued(send)


async def test_mistakes_are_rejected(hf: Holdfast) -> None:
    @hf.task
    async def send(key: int, count: int) -> None: ...

    @hf.task
    async def plain() -> None: ...

    with pytest.raises(InvalidInput, match=r"ordre: is neither an argument of plain \(it takes none\) nor one of at,"):
        await assert_not_enqueued(plain, ordre=1)
    with pytest.raises(InvalidInput, match=r"key: send has an argument of this name; pass its arguments as arguments="):
        await assert_not_enqueued(send, key=1)
    with pytest.raises(InvalidInput, match="count: send has an argument of this name"):
        await assert_enqueued(send, count=1)
    with pytest.raises(InvalidInput, match=r"colour: expected one of at, delay,"):
        await assert_not_enqueued(send, arguments={}, colour=1)
    with pytest.raises(InvalidInput, match=r"key: expected the plain task, without \.options"):
        await assert_enqueued(plain.options(key="k"))
    with pytest.raises(InvalidInput, match="at: has no time zone"):
        await assert_enqueued(plain, at=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="within: expected a duration"):
        await assert_enqueued(plain, within="soon")
    await assert_not_enqueued(send)
    await assert_not_enqueued(send, count=6)
    await send.options(key="k").enqueue(key=5, count=6)
    with pytest.raises(AssertionError):
        await assert_not_enqueued(send, count=6)
    await assert_enqueued(send, arguments={"key": 5, "count": 6}, key="k", count=1)


async def test_what_has_started_or_ended_does_not_count(hf: Holdfast) -> None:
    @hf.task
    async def job() -> None:
        await assert_not_enqueued(job)

    await job.enqueue()
    assert len(await drain(hf)) == 1
    await assert_not_enqueued(job)


async def test_a_payload_that_does_not_fit_is_shown(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(version=2)
    async def job(n: int) -> None: ...

    inbox.rows("select holdfast.enqueue('job', '{\"n\": \"x\"}', version => 2)")
    inbox.rows("select holdfast.enqueue('job', '{\"m\": 1}', version => 1)")
    found = await assert_enqueued(job, count=2)
    assert [each.arguments for each in found] == [{"n": "x"}, {"m": 1}]


# On callers' connections


async def test_in_an_open_transaction(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def send(n: int) -> None: ...

    server = direct(inbox.url)
    connection = await asyncpg.connect(server)
    transaction = connection.transaction()
    await transaction.start()
    await send.on(connection).enqueue(1)
    await assert_enqueued(send, on=connection, n=1, count=1)
    await assert_not_enqueued(send)
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(send, on=connection, n=2)
    assert "on=connection" not in str(caught.value)
    await transaction.rollback()
    with pytest.raises(InvalidInput, match="on: expected a connection in a transaction; leave it out"):
        await assert_enqueued(send, on=connection)
    with pytest.raises(InvalidInput, match="on: expected a synchronous connection"):
        assert_enqueued_sync(send, on=connection)
    await connection.close()

    engine = create_async_engine(server.replace("postgresql://", "postgresql+psycopg://"))
    async with AsyncSession(engine) as session, session.begin():
        await send.on(session).enqueue(2)
        await assert_enqueued(send, on=session, n=2)
    await engine.dispose()
    await assert_enqueued(send, n=2, count=1)


def test_in_an_open_transaction_without_await(inbox: Inbox) -> None:
    hf = Holdfast(inbox.url)

    @hf.task
    async def send(n: int) -> None: ...

    server = direct(inbox.url)
    with psycopg.connect(server) as connection:
        send.on(connection).enqueue(1)
        assert_enqueued_sync(send, on=connection, n=1, count=1)
        with pytest.raises(AssertionError, match="n is 1, expected 2"):
            assert_enqueued_sync(send, on=connection, n=2)
        assert_not_enqueued_sync(send)
        connection.rollback()
        assert_not_enqueued_sync(send, on=connection)
    engine = create_engine(server.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        send.on(session).enqueue(2)
        assert_enqueued_sync(send, on=session, n=2)
        session.commit()
    engine.dispose()
    assert_enqueued_sync(send, n=2)
    with pytest.raises(AssertionError):
        assert_not_enqueued_sync(send, n=2)
    hf.close_sync()
