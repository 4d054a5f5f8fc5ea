"""Producers against each other: one key, one job (P6), nobody waits for ever, and no answer is not no job (P1)."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import asyncpg
import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import installation
from tests.support.pooler import direct
from tests.support.proxy import Proxy, proxied
from tests.support.waiting import until_blocked

from holdfast import InvalidPayload, Job, Task
from holdfast.model.ids import new_id

SendReceipt = Task[..., None]
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Sessions:
    """Connections for as many producers as a test wants."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack

    async def open(self) -> Connection:
        connection: Connection = await asyncpg.connect(direct(self._url))
        self._stack.push_async_callback(connection.close)
        return connection


@pytest.fixture
async def sessions(migrated_url: str) -> AsyncIterator[Sessions]:
    async with AsyncExitStack() as stack:
        yield Sessions(migrated_url, stack)


async def test_twenty_producers_one_key_one_job(sessions: Sessions, send_receipt: SendReceipt, inbox: Inbox) -> None:
    connections = [await sessions.open() for _ in range(20)]

    async def produce(connection: Connection) -> Job:
        async with connection.transaction():
            return await send_receipt.on(connection, idempotency_key="k").enqueue(order_id=1)

    jobs = await asyncio.gather(*map(produce, connections))
    assert len({job.id for job in jobs}) == 1
    assert [job.existed for job in jobs].count(False) == 1
    assert await inbox.count() == 1


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_the_second_waits_for_the_first(
    ending: str, sessions: Sessions, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    one, two = await sessions.open(), await sessions.open()
    first, second = one.transaction(), two.transaction()
    await first.start()
    await second.start()
    winner = await send_receipt.on(one, idempotency_key="k").enqueue(order_id=1)
    waiter = asyncio.create_task(send_receipt.on(two, idempotency_key="k").enqueue(order_id=1))
    await until_blocked(inbox.connection)
    await getattr(first, ending)()
    job = await waiter
    await second.commit()
    (row,) = await inbox.jobs()
    assert row["id"] == job.id
    assert (job.id == winner.id, job.existed) == ((True, True) if ending == "commit" else (False, False))


async def test_opposite_orders_do_not_deadlock(sessions: Sessions, send_receipt: SendReceipt, inbox: Inbox) -> None:
    """A third session holds the key in the middle, so that each of the two has its first when it asks for its last."""
    holder, one, two = [await sessions.open() for _ in range(3)]
    hold = holder.transaction()
    await hold.start()
    await send_receipt.on(holder, idempotency_key="m").enqueue(order_id=2)

    async def produce(connection: Connection, rows: dict[str, int]) -> list[Job]:
        async with connection.transaction():
            arguments = [{"order_id": n} for n in rows.values()]
            return await send_receipt.on(connection).enqueue_many(arguments, idempotency_keys=list(rows))

    forward = asyncio.create_task(produce(one, {"a": 1, "m": 2, "b": 3}))
    await until_blocked(inbox.connection, 1)
    backward = asyncio.create_task(produce(two, {"b": 3, "m": 2, "a": 1}))
    await until_blocked(inbox.connection, 2)
    await hold.rollback()
    assert [job.id for job in await forward] == [job.id for job in reversed(await backward)]
    assert await inbox.count() == 3


async def test_shuffled_keys_do_not_deadlock(sessions: Sessions, send_receipt: SendReceipt, inbox: Inbox) -> None:
    dice = random.Random(7)

    async def produce(connection: Connection) -> None:
        for turn in range(15):
            numbers = dice.sample(range(turn * 10, turn * 10 + 20), 15)
            async with connection.transaction():
                await send_receipt.on(connection).enqueue_many(
                    [{"order_id": n} for n in numbers], idempotency_keys=[f"order:{n}" for n in numbers]
                )

    await asyncio.gather(*[produce(await sessions.open()) for _ in range(4)])
    assert await inbox.count() == await inbox.count("holdfast.dedupe")


async def test_one_key_twice_in_one_call_is_one_job(send_receipt: SendReceipt, inbox: Inbox) -> None:
    jobs = await send_receipt.enqueue_many([{"order_id": 1}, {"order_id": 1}], idempotency_keys=["k", "k"])
    assert jobs[0].id == jobs[1].id
    assert sorted(job.existed for job in jobs) == [False, True]
    assert await inbox.count() == 1


async def test_many_keys_keep_the_order_given(send_receipt: SendReceipt, inbox: Inbox) -> None:
    numbers = random.Random(7).sample(range(100), 100)
    rows = [{"order_id": n} for n in numbers]
    jobs = await send_receipt.options(key="one").enqueue_many(rows, idempotency_keys=[f"order:{n}" for n in numbers])
    assert [row["id"] for row in await inbox.jobs()] == [job.id for job in jobs]


async def test_one_key_twice_of_a_hand_written_job_names_that_job(send_receipt: SendReceipt, inbox: Inbox) -> None:
    by_hand = await inbox.connection.fetchval(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, idempotency_key) "
        """values ('by hand', 1, '{"type": "send_receipt", "order_id": 1}', 'k') returning id"""
    )
    jobs = await send_receipt.enqueue_many([{"order_id": 1}, {"order_id": 1}], idempotency_keys=["k", "k"])
    assert [(job.id, job.existed) for job in jobs] == [(by_hand, True)] * 2


async def test_an_own_id_waits_for_its_own_first_try(
    sessions: Sessions, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    """The first try may still be under way when it is repeated: cut on this side, not yet committed on the other."""
    one, two, mine = await sessions.open(), await sessions.open(), new_id()
    first = one.transaction()
    await first.start()
    await send_receipt.on(one, id=mine).enqueue(order_id=1)

    async def repeat() -> Job:
        async with two.transaction():
            return await send_receipt.on(two, id=mine).enqueue(order_id=1)

    again = asyncio.create_task(repeat())
    await until_blocked(inbox.connection)
    await first.commit()
    assert (await again).existed
    assert await inbox.count() == 1


async def test_a_hand_written_key_whose_row_goes_away_is_free_again(
    sessions: Sessions, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    """The row that is in the way ends while we wait for it: the job must be made, not believed to exist."""
    writer, producer = await sessions.open(), await sessions.open()
    await writer.execute(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, idempotency_key) "
        "values ('k', 1, '{\"type\": \"send_receipt\", \"order_id\": 1}', 'k')"
    )
    ending = writer.transaction()
    await ending.start()
    await writer.execute("delete from holdfast.inbox")

    async def produce() -> Job:
        async with producer.transaction():
            return await send_receipt.on(producer, idempotency_key="k").enqueue(order_id=1)

    waiter = asyncio.create_task(produce())
    await until_blocked(inbox.connection)
    await ending.commit()
    job = await waiter
    assert not job.existed
    assert [row["id"] for row in await inbox.jobs()] == [job.id]


# The answer is lost


@pytest.fixture
async def proxy(migrated_url: str) -> AsyncIterator[Proxy]:
    async with proxied(migrated_url) as proxy:
        yield proxy


@pytest.mark.parametrize("options", [{}, {"idempotency_key": "k"}, {"key": "order:1", "delay": "1h"}])
async def test_a_commit_without_an_answer_is_one_job(proxy: Proxy, inbox: Inbox, options: dict[str, Any]) -> None:
    async with installation(proxy.url) as hf:

        @hf.task
        def mark(word: str) -> None: ...

        await mark.enqueue("connected")
        proxy.cut_after(b"unanswered", b"INSERT 0 1" if "idempotency_key" not in options else b"SELECT 1")
        job = await mark.options(**options).enqueue("unanswered")
    assert proxy.cuts == 1
    assert not job.existed
    rows = await inbox.jobs()
    assert [row["id"] for row in rows][1:] == [job.id]


@pytest.mark.parametrize("copy", [False, True])
async def test_a_batch_without_an_answer_is_one_batch(proxy: Proxy, inbox: Inbox, copy: bool) -> None:
    async with installation(proxy.url) as hf:

        @hf.task
        def mark(n: int) -> None: ...

        proxy.cut_after(b"COMMIT", b"COMMIT")
        jobs = await mark.enqueue_many([{"n": n} for n in range(100)], copy=copy)
    assert proxy.cuts == 1
    assert [row["id"] for row in await inbox.jobs()] == [job.id for job in jobs]
    assert not any(job.existed for job in jobs)


async def test_a_batch_cut_off_while_it_is_sent_is_one_batch(
    proxy: Proxy, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    async with installation(proxy.url) as hf:

        @hf.task
        def mark(n: int) -> None: ...

        proxy.cut_after(b"COPY", b"G\0\0\0")  # the server is ready to read
        jobs = await mark.enqueue_many([{"n": n} for n in range(5000)], copy=True)
    assert proxy.cuts == 1
    assert [row["id"] for row in await inbox.jobs()] == [job.id for job in jobs]
    assert not any(job.existed for job in jobs)
    assert "socket.send() raised" not in caplog.text, "it goes on writing to nobody"


async def test_a_bad_row_in_a_batch_that_is_cut_off_is_refused(proxy: Proxy, inbox: Inbox) -> None:
    async with installation(proxy.url) as hf:

        @hf.task
        def mark(n: int) -> None: ...

        rows: list[dict[str, Any]] = [{"n": n} for n in range(5000)]
        rows[4999]["n"] = "last"
        proxy.cut_after(b"COPY", b"G\0\0\0")
        with pytest.raises(InvalidPayload, match=r"\[4999\].n"):
            await mark.enqueue_many(rows, copy=True)
    assert proxy.cuts == 1
    assert await inbox.count() == 0
