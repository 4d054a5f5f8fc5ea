"""When a producer notifies: somebody sleeps on the queue, nobody is awake, and the work is due."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox
from tests.wake.conftest import Ear, Flags

from holdfast import Holdfast
from holdfast.db.database import Database
from holdfast.schema.migrate import migrate
from holdfast.tasks import Task

pytestmark = pytest.mark.direct  # LISTEN itself: there is none behind a pooler

WAKE = "select holdfast.wake(%s)"


async def test_nobody_sleeps(inbox: Inbox, ear: Ear) -> None:
    assert inbox.one(WAKE, "default") is False
    assert await ear.told() == []


async def test_somebody_sleeps(inbox: Inbox, ear: Ear, flags: Flags) -> None:
    await flags.up("asleep")
    assert inbox.one(WAKE, "default") is True
    assert await ear.told() == [":default"]


async def test_one_who_is_awake_will_find_it(inbox: Inbox, ear: Ear, flags: Flags) -> None:
    await flags.up("asleep")
    await flags.up("awake")
    assert inbox.one(WAKE, "default") is False
    await flags.down("awake")
    assert inbox.one(WAKE, "default") is True
    assert await ear.told() == [":default"]


async def test_flags_are_of_one_queue_and_one_installation(inbox: Inbox, flags: Flags) -> None:
    await migrate(Database(inbox.url, schema="other"))
    await flags.up("asleep", "mail")
    await flags.up("asleep", "default", schema="other")
    await flags.up("awake", "mail", schema="other")
    assert inbox.one(WAKE, "default") is False
    assert inbox.one(WAKE, "mail") is True
    assert inbox.one("select other.wake('default')") is True
    assert inbox.one("select holdfast.channel() <> other.channel()")


@pytest.mark.parametrize("asleep", [False, True])
async def test_the_test_leaves_nothing_behind_in_an_open_transaction(
    inbox: Inbox, flags: Flags, ear: Ear, asleep: bool
) -> None:
    if asleep:
        await flags.up("asleep")
    with psycopg.connect(inbox.url) as producer:
        producer.execute("select holdfast.wake('default')")
        held = inbox.one("select count(*) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock'")
        assert held == 0
        producer.rollback()
    assert await ear.told() == [], "nothing came of it"


@pytest.mark.parametrize("asleep", [False, True])
async def test_a_cancel_leaves_nothing_behind_either(inbox: Inbox, flags: Flags, asleep: bool) -> None:
    """At whatever moment it comes: a lock that stayed with the session would look like a flag until its end."""
    inbox.rows("update holdfast.settings set value = 'false' where name = 'notify'")
    if asleep:
        await flags.up("asleep")
    producer = await asyncpg.connect(inbox.url)
    pid = producer.get_server_pid()
    for _ in range(30):
        asking = asyncio.create_task(
            producer.execute("do $$ begin loop perform holdfast.wake('default'); end loop; end $$")
        )
        await until(lambda: inbox.one("select state = 'active' from pg_stat_activity where pid = %s", pid))
        inbox.one("select pg_cancel_backend(%s)", pid)
        with pytest.raises(asyncpg.QueryCanceledError):
            await asking
    held = inbox.one("select count(*) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock'")
    await producer.close()
    assert held == 0


async def test_what_is_due_later_wakes_nobody(inbox: Inbox, ear: Ear, flags: Flags) -> None:
    await flags.up("asleep")
    assert inbox.one("select holdfast.wake('default', 0.5)") is False
    assert inbox.one("select holdfast.wake('default', at => now() + interval '1 s')") is False
    inbox.one("select holdfast.enqueue('t', delay => '1 s')")
    inbox.one("select holdfast.enqueue('t', at => now() + interval '1 day')")
    assert await ear.told() == []
    assert inbox.one("select holdfast.wake('default', 0, now() - interval '1 s')") is True
    inbox.one("select holdfast.enqueue('t', at => now() - interval '1 day')")
    assert await ear.told() == [":default"] * 2


async def test_a_paused_queue_wakes_nobody_until_it_is_resumed(
    hf: Holdfast, inbox: Inbox, ear: Ear, flags: Flags
) -> None:
    await flags.up("asleep")
    await hf.pause("default")
    inbox.one("select holdfast.enqueue('t')")
    assert await ear.told() == []
    await hf.resume("default")
    assert await ear.told() == [":default"]


async def test_an_installation_can_do_without(inbox: Inbox, ear: Ear, flags: Flags) -> None:
    await flags.up("asleep")
    inbox.rows("update holdfast.settings set value = 'false' where name = 'notify'")
    assert inbox.one(WAKE, "default") is False
    assert await ear.told() == []


# Every door

Door = Callable[[Holdfast, Task[..., Any], Inbox], Awaitable[Any]]


async def one(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    await task.enqueue(n=1)


async def keyed(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    await task.options(idempotency_key="k").enqueue(n=1)


async def many(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    await task.enqueue_many([{"n": n} for n in range(50)])


async def many_keyed(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    await task.enqueue_many([{"n": n} for n in range(50)], idempotency_keys=[str(n) for n in range(50)])


async def copied(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    await task.enqueue_many([{"n": n} for n in range(50)], copy=True)


async def in_a_transaction(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    connection = await asyncpg.connect(inbox.url)
    async with connection.transaction():
        await task.on(connection).enqueue(n=1)
    await connection.close()


async def sql(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    inbox.one("select holdfast.enqueue('t')")


async def revived(hf: Holdfast, task: Task[..., Any], inbox: Inbox) -> None:
    id = inbox.one(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, status)"
        """ values ('k', 1, '{"type": "t"}', 'dead_letter') returning id"""
    )
    assert await hf.revive([id]) == [id]


DOORS: list[Door] = [one, keyed, many, many_keyed, copied, in_a_transaction, sql, revived]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_every_door_wakes_and_asks_once(hf: Holdfast, inbox: Inbox, ear: Ear, flags: Flags, door: Door) -> None:
    @hf.task
    async def t(n: int) -> None:
        pass

    count_the_calls_of_wake(inbox)
    await flags.up("asleep")
    await door(hf, t, inbox)
    assert await ear.told() == [":default"]
    assert ear.more == (["+49:default"] if door in (many, many_keyed, copied) else [])
    assert inbox.one("select count(*) from public.wakes") == 1


def count_the_calls_of_wake(inbox: Inbox) -> None:
    """By a function in its place: the server's own statistics come late, and on 14 from a file of some age."""
    itself = inbox.one("select pg_get_functiondef('holdfast.wake'::regproc)")
    inbox.rows(itself.replace("holdfast.wake", "holdfast.wake_itself", 1))
    inbox.rows("create table public.wakes (called_at timestamptz default clock_timestamp())")
    inbox.rows("""
        create or replace function holdfast.wake(
            queue text, delay float8 default null, at timestamptz default null, jobs int default 1)
            returns boolean language plpgsql as $$
        begin
            insert into public.wakes default values;
            return holdfast.wake_itself(queue, delay, at, jobs);
        end $$
    """)


async def test_a_repetition_wakes_nobody(hf: Holdfast, inbox: Inbox, ear: Ear, flags: Flags) -> None:
    @hf.task
    async def t(n: int) -> None:
        pass

    await t.options(idempotency_key="k").enqueue(n=1)
    await flags.up("asleep")
    await t.options(idempotency_key="k").enqueue(n=1)
    inbox.one("""select holdfast.enqueue('t', '{"n": 1}', idempotency_key => 'k')""")
    assert await ear.told() == []


async def test_a_listener_that_went_silent_loses_its_session_and_its_flags(inbox: Inbox, flags: Flags) -> None:
    database = Database(inbox.url)
    silent = await asyncpg.connect(inbox.url)
    assert await silent.fetchval(database.sql("worker/waking", "listen"), "200ms") == "holdfast.wake"
    await silent.fetch(database.sql("worker/waking", "flags"), ["awake"], ["default"], [True])
    pid = silent.get_server_pid()
    ended = "select count(*) = 0 from pg_stat_activity where pid = %s"
    await until(lambda: inbox.one(ended, pid))
    assert flags.count("awake") == 0
    silent.terminate()
