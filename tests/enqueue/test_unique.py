"""Unique jobs: one of a kind and key that has not started yet, or not ended; found, or replaced, by an index."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import CALLERS, settle
from tests.support.pooler import direct
from tests.support.waiting import until

from holdfast import Holdfast, InvalidInput, Job, Task

Send = Task[..., None]


@pytest.fixture
def send(hf: Holdfast) -> Send:
    @hf.task
    def send(n: int) -> None: ...

    return send


async def pretend(inbox: Inbox, status: str, generation: int = 1) -> None:
    """The row as a worker would leave it."""
    await inbox.connection.execute(
        "update holdfast.inbox set status = $1::text::holdfast.inbox_status, lease_generation = $2, attempts = 1, "
        "claimed_by = case when $1 = 'processing' then 'w1' end",
        status, generation,
    )  # fmt: skip


async def test_one_that_has_not_started_is_found(send: Send, inbox: Inbox) -> None:
    first = await send.options(unique_key="a").enqueue(1)
    again = await send.options(unique_key="a").enqueue(2)
    other = await send.options(unique_key="b").enqueue(3)
    assert (first.existed, again.existed, other.existed) == (False, True, False)
    assert (again.id, again.replaced) == (first.id, False)
    assert [row["payload"] for row in await inbox.jobs()] == ['{"n": 1, "type": "send"}', '{"n": 3, "type": "send"}']


async def test_by_arguments(send: Send, inbox: Inbox) -> None:
    same = send.options(unique_arguments=True)
    first, again, other = await same.enqueue(1), await same.enqueue(1), await same.enqueue(2)
    assert (first.id == again.id, again.existed, other.existed) == (True, True, False)
    by_sql = await inbox.connection.fetchval("select holdfast.enqueue('send', '{\"n\": 1}', unique_arguments => true)")
    assert by_sql == first.id, "every language computes the same"


async def test_keys_are_per_kind(hf: Holdfast, send: Send, inbox: Inbox) -> None:
    @hf.task
    def other(n: int) -> None: ...

    await send.options(unique_key="a").enqueue(1)
    assert not (await other.options(unique_key="a").enqueue(1)).existed


@pytest.mark.parametrize("status", ["processing", "pending", "dead_letter"])
async def test_the_first_claim_gives_the_key_up_for_good(send: Send, inbox: Inbox, status: str) -> None:
    await send.options(unique_key="a").enqueue(1)
    await pretend(inbox, status)
    second = await send.options(unique_key="a").enqueue(2)
    assert not second.existed
    assert (await send.options(unique_key="a").enqueue(3)).id == second.id
    await pretend(inbox, "pending")  # both wait for a retry: nothing is in the way
    assert await inbox.count() == 2


@pytest.mark.parametrize(("status", "existed"), [("processing", True), ("pending", True), ("dead_letter", False)])
async def test_until_it_is_done_through_its_retries(send: Send, inbox: Inbox, status: str, existed: bool) -> None:
    task = send.options(unique_key="a", unique_done=True)
    await task.enqueue(1)
    await pretend(inbox, status)
    assert (await task.enqueue(2)).existed == existed


async def test_when_it_is_done_the_next_one_is_new(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(unique_arguments=True, unique_done=True)
    async def note(n: int) -> None: ...

    job = await note.enqueue(1)
    assert (await note.enqueue(1)).existed
    async with hf.worker(poll=0.05):
        await until(lambda: job.status_sync() == "completed")
    assert not (await note.enqueue(1)).existed


# Replacing


async def test_a_waiting_job_gets_new_arguments_and_keeps_its_time(send: Send, inbox: Inbox) -> None:
    first = await send.options(unique_key="a", delay="1h").enqueue(1)
    replaced = await send.options(unique_key="a", replace="arguments").enqueue(2)
    assert (replaced.id, replaced.existed, replaced.replaced) == (first.id, True, True)
    (row,) = await inbox.jobs("payload, available_at > now() + interval '59 min' as later, attempts")
    assert tuple(row) == ('{"n": 2, "type": "send"}', True, 0)


async def test_debounce_pushes_it_back(send: Send, inbox: Inbox) -> None:
    await send.options(unique_key="a").enqueue(1)
    await send.options(unique_key="a", replace="time", delay="1h").enqueue(2)
    (row,) = await inbox.jobs("payload, available_at > now() + interval '59 min' as later")
    assert tuple(row) == ('{"n": 2, "type": "send"}', True)


async def test_a_running_job_is_not_replaced(send: Send, inbox: Inbox) -> None:
    task = send.options(unique_key="a", unique_done=True, replace="arguments")
    await task.enqueue(1)
    await pretend(inbox, "processing")
    found = await task.enqueue(2)
    assert (found.existed, found.replaced) == (True, False)
    assert [row["payload"] for row in await inbox.jobs()] == ['{"n": 1, "type": "send"}']


async def test_a_running_job_is_not_locked_by_a_producer(send: Send, inbox: Inbox, migrated_url: str) -> None:
    """Its completion would wait for the producer's commit."""
    task = send.options(unique_key="a", unique_done=True)
    await task.enqueue(1)
    await pretend(inbox, "processing")
    producer = await asyncpg.connect(direct(migrated_url))
    async with producer.transaction():
        assert (await task.on(producer, replace="arguments").enqueue(2)).existed
        await inbox.connection.execute("set lock_timeout = '1s'")
        assert await inbox.connection.execute("delete from holdfast.inbox where status = 'processing'") == "DELETE 1"
    await producer.close()


# Many, and in callers' transactions


@pytest.mark.parametrize("door", CALLERS)
async def test_in_a_callers_transaction(hf: Holdfast, send: Send, inbox: Inbox, migrated_url: str, door: str) -> None:
    many = [send.options(unique_key=key).job(n) for n, key in enumerate("aab")]
    async with CALLERS[door](migrated_url) as seat:
        jobs: Sequence[Job] = await settle(hf.on(seat.connection).enqueue_many(many))
    assert [job.existed for job in jobs] == [False, True, False]
    assert jobs[0].id == jobs[1].id
    assert await inbox.count() == 2


async def test_a_rival_that_is_rolled_back_loses_nothing(send: Send, inbox: Inbox, migrated_url: str) -> None:
    rival = await asyncpg.connect(direct(migrated_url))
    transaction = rival.transaction()
    await transaction.start()
    await send.on(rival, unique_key="a").enqueue(1)
    waiting = asyncio.create_task(send.options(unique_key="a").enqueue(2))
    await asyncio.sleep(0.2)
    assert not waiting.done(), "it waits to see what becomes of it"
    await transaction.rollback()
    assert not (await waiting).existed
    assert [row["payload"] for row in await inbox.jobs()] == ['{"n": 2, "type": "send"}']
    await rival.close()


async def test_with_an_idempotency_key(send: Send, inbox: Inbox) -> None:
    first = await send.options(unique_key="a").enqueue(1)
    found = await send.options(unique_key="a", idempotency_key="i").enqueue(2)
    again = await send.options(unique_key="b", idempotency_key="i").enqueue(2)
    assert found.id == first.id == again.id, "the idempotency key stands for the job that was found"


async def test_fifty_producers_with_rollbacks_and_a_claimer(send: Send, inbox: Inbox, migrated_url: str) -> None:
    """No key has two jobs that have not started; nothing that was committed as new is missing."""
    pool: Any = await asyncpg.create_pool(direct(migrated_url), min_size=1, max_size=10)
    made: list[Any] = []
    ended = asyncio.Event()

    async def produce(number: int) -> None:
        chance = random.Random(number)
        for n in range(8):
            job = None
            try:
                async with pool.acquire() as connection, connection.transaction():
                    replace: Any = chance.choice([None, "arguments", "time"])
                    task = send.on(connection, unique_key=chance.choice("abcd"), replace=replace)
                    job = await task.enqueue(number * 100 + n)
                    if chance.random() < 0.3:
                        raise ZeroDivisionError
                if not job.existed:
                    made.append(job.id)
            except ZeroDivisionError:
                pass

    async def claim() -> None:
        while not ended.is_set():
            await inbox.connection.execute(
                "update holdfast.inbox set status = 'processing', lease_generation = 1 where id in (select id from "
                "holdfast.inbox where status = 'pending' and lease_generation = 0 limit 1 for update skip locked)"
            )
            await asyncio.sleep(0.002)

    claimer = asyncio.create_task(claim())
    await asyncio.gather(*(produce(number) for number in range(50)))
    ended.set()
    await claimer
    rows = await inbox.jobs("id, unique_key, lease_generation")
    assert sorted(row["id"] for row in rows) == sorted(made)
    waiting = [row["unique_key"] for row in rows if row["lease_generation"] == 0]
    assert len(waiting) == len(set(waiting))
    assert len(made) > 8, "the claimer took some"
    await pool.close()


# Mistakes

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "both": (
        {"unique_key": "a", "unique_arguments": True},
        "unique_key: give unique_key or unique_arguments",
    ),
    "replace what?": ({"replace": "arguments"}, "replace: needs unique_key='…' or unique_arguments=True"),
    "until what?": ({"unique_done": True}, "unique_done: needs unique_key='…' or unique_arguments=True"),
    "replace": ({"unique_key": "a", "replace": "all"}, "replace: expected 'arguments' or 'time', got 'all'"),
    "empty": ({"unique_key": ""}, "unique_key: .*1 to 512"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_mistakes_are_named(send: Send, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        await send.options(**options).enqueue(1)


@pytest.mark.parametrize(
    "arguments",
    ["unique_key => ''", "replace => 'x'", "replace => 'time'", "unique_key => 'a', unique_arguments => true"],
)
async def test_sql_names_them_too(inbox: Inbox, arguments: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await inbox.connection.fetchval(f"select holdfast.enqueue('send', {arguments})")
    assert refused.value.sqlstate == "HF001"
