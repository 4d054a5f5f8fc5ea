"""Unique jobs: one of a kind and key that has not started yet, or not ended; found, or replaced, by an index."""

import asyncio
import itertools
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import CALLERS, settle
from tests.support.inbox import until as until_true
from tests.support.pooler import direct
from tests.support.waiting import until, until_blocked
from tests.support.workers import ROOT

from holdfast import Context, Holdfast, InvalidInput, Job, Task

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


async def test_a_revived_dead_letter_is_unique_again_until_it_is_done(hf: Holdfast, send: Send, inbox: Inbox) -> None:
    task = send.options(unique_key="a", unique_done=True)
    dead = [(await task.enqueue(1)).id]
    await pretend(inbox, "dead_letter")
    dead.append((await task.enqueue(2)).id)
    await pretend(inbox, "dead_letter")
    assert sorted(await hf.revive(dead)) == sorted(dead), "both: they are wanted by name"
    again = await task.enqueue(3)
    assert (again.existed, again.id) == (True, dead[0]), "the first one has the key"
    assert [row["unique_key"] for row in await inbox.jobs("unique_key")] == ["a", None]


async def test_a_revived_dead_letter_whose_key_is_taken_runs_beside_it(hf: Holdfast, send: Send, inbox: Inbox) -> None:
    task = send.options(unique_key="a", unique_done=True)
    dead = await task.enqueue(1)
    await pretend(inbox, "dead_letter")
    new = await task.enqueue(2)
    assert await hf.revive([dead.id]) == [dead.id]
    assert (await task.enqueue(3)).id == new.id
    assert [row["unique_key"] for row in await inbox.jobs("unique_key")] == [None, "a"]


async def test_a_dead_letter_is_revived_while_a_producer_takes_its_key(
    hf: Holdfast, send: Send, inbox: Inbox, migrated_url: str
) -> None:
    task: dict[str, Any] = {"unique_key": "a", "unique_done": True}
    dead = await send.options(**task).enqueue(1)
    await pretend(inbox, "dead_letter")
    rival: Any = await asyncpg.connect(direct(migrated_url))
    transaction = rival.transaction()
    await transaction.start()
    new = await send.on(rival, **task).enqueue(2)
    reviving = asyncio.create_task(hf.revive([dead.id]))
    await until_blocked(inbox.connection)
    await transaction.commit()
    assert await reviving == [dead.id]
    assert (await send.options(**task).enqueue(3)).id == new.id
    await rival.close()


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
        await inbox.connection.execute("set lock_timeout = '10s'")  # or we would wait for ourselves
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
    await until_blocked(inbox.connection)
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


@pytest.mark.parametrize("replace", [None, "arguments"])
async def test_the_key_of_a_call_that_found_another_job_is_forgotten_after_its_horizon(
    send: Send, inbox: Inbox, replace: Any
) -> None:
    """The ending of that job knows only the job's own key."""
    await send.options(unique_key="a", idempotency_key="first").enqueue(1)
    await send.options(unique_key="a", idempotency_key="second", replace=replace).enqueue(2)
    rows = await inbox.connection.fetch("select key, expires_at is not null from holdfast.dedupe order by key")
    assert [tuple(row) for row in rows] == [("first", False), ("second", True)]


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
            # Again and again: at the end, the claimer may have taken one of two.
            assert await inbox.connection.fetch(
                "select unique_key from holdfast.inbox where lease_generation = 0 group by 1 having count(*) > 1"
            ) == []  # fmt: skip
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


@pytest.mark.parametrize("unique_done", [False, True])
async def test_replacing_races_the_claims_of_a_worker(hf: Holdfast, migrated_url: str, unique_done: bool) -> None:
    """A call that says "added" or "replaced", and commits, is what runs: each job runs once, with the last of these."""
    ran: list[tuple[UUID, int]] = []
    meant: dict[UUID, int] = {}
    said: Counter[str] = Counter()

    @hf.task
    async def save(ctx: Context, n: int) -> None:
        ran.append((ctx.job_id, n))

    async def produce(key: str) -> None:
        """All calls of a key, one after the other: which one was the last is known."""
        chance, connection = random.Random(key), await asyncpg.connect(direct(migrated_url))
        for n in range(40):
            options: dict[str, Any] = {"replace": chance.choice(["arguments", "time"]), "unique_done": unique_done}
            if chance.random() < 0.5:
                options["delay"] = chance.choice([0.005, 0.02, 0.04])
            transaction = connection.transaction()
            await transaction.start()
            job = await save.on(connection, unique_key=key, **options).enqueue(n)
            await asyncio.sleep(chance.random() * 0.005)
            if chance.random() < 0.3:
                await transaction.rollback()
                continue
            await transaction.commit()
            said["replaced" if job.replaced else "found" if job.existed else "added"] += 1
            if job.replaced or not job.existed:
                meant[job.id] = n
        await connection.close()

    async with hf.worker(poll=0.01):
        await asyncio.gather(*(produce(f"document:{number}") for number in range(8)))
        await until(lambda: len(ran) >= len(meant))
    assert sorted(ran) == sorted(meant.items())
    assert said["added"] > 8, "jobs ran while others were enqueued"
    assert said["replaced"] > 8, "and waiting ones were replaced"


def start_producers(url: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.apps.producers", direct(url), str(seed)]
    return subprocess.Popen(command, cwd=ROOT)


async def test_fifty_producers_that_are_killed_in_their_transactions(inbox: Inbox, migrated_url: str) -> None:
    """Five processes with ten producers each: rollbacks, processes killed and sessions ended at any moment.

    None is lost: what a committed call has found or added is there. None is doubled: every job was added by exactly one
    committed call, and no key has two that have not started. It fails if the job in the way is looked up before the
    insert, instead of found by the index, or if anything is written outside the caller's transaction.
    """
    connection = inbox.connection
    await connection.execute("create table produced (job uuid, key text, existed boolean)")
    seeds = itertools.count()
    producers = [start_producers(migrated_url, next(seeds)) for _ in range(5)]
    sessions = "pg_stat_activity where application_name = 'producer' and datname = current_database()"
    try:
        await until_true(connection, "select count(*) > 50 from produced")
        chance, kills, added_by_now, ends = random.Random(7), 0, 0, time.monotonic() + 3
        while kills < 4 or added_by_now <= 20 or time.monotonic() < ends:
            assert time.monotonic() < ends + 120
            for _ in range(10):
                doubled = await connection.fetch(
                    "select unique_key from holdfast.inbox where lease_generation = 0 group by 1 having count(*) > 1"
                )
                assert doubled == [], "seen each time: a claim would hide it from the count at the end"
                await connection.execute(  # the first claims; what is unique until it is done has ended
                    "update holdfast.inbox set lease_generation = 1, status = case when unique_done then 'dead_letter' "
                    "else 'processing' end::holdfast.inbox_status where id in (select id from holdfast.inbox "
                    "where status = 'pending' and lease_generation = 0 order by seq limit 6 for update skip locked)"
                )
                await connection.execute(
                    f"select pg_terminate_backend(pid) from {sessions} and state <> 'idle' order by random() limit 1"
                )
                await asyncio.sleep(0.02)
            kills += 1
            added_by_now = await connection.fetchval("select count(*) from produced where not existed")
            killed = chance.randrange(5)
            producers[killed].kill()
            producers[killed].wait(30)
            producers[killed] = start_producers(migrated_url, next(seeds))
    finally:
        for producer in producers:
            producer.kill()
            producer.wait(30)
    await until_true(connection, f"select not exists (select from {sessions})")
    calls = await connection.fetch("select job, existed from produced")
    added = [call["job"] for call in calls if not call["existed"]]
    assert len(added) == len(set(added)) > 20
    assert {call["job"] for call in calls} == set(added), "what was found had been added"
    rows = await inbox.jobs("id, kind, unique_key, lease_generation")
    assert sorted(row["id"] for row in rows) == sorted(added), "none lost, none doubled"
    waiting = [row["unique_key"] for row in rows if row["lease_generation"] == 0]
    assert len(waiting) == len(set(waiting))
    await connection.execute("drop table produced")


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
