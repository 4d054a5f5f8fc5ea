"""Behind PgBouncer in transaction mode: any statement may meet any session, and none is left changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.cli.conftest import Shell
from tests.support.inbox import until
from tests.support.pooler import SESSIONS, database_at, direct
from tests.support.workers import Fleet

from holdfast import ConfigurationError, Context, Holdfast, TxContext
from holdfast.db.database import PLANNER, Database
from holdfast.db.link import Link, translate
from holdfast.errors import Contended, Unreachable
from holdfast.housekeeping.chores import CHORES, Chore, Done, Turn
from holdfast.housekeeping.loop import Housekeeper

pytestmark = pytest.mark.pooled

PINNED = "select name, setting from pg_settings where name = any($1::text[])"
CARRIED_OVER = {"application_name", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"}
"""Settings that PgBouncer itself keeps for each of its clients."""


@pytest.fixture
def database(migrated_url: str) -> Database:
    return database_at(migrated_url)


@pytest.fixture
async def link(database: Database) -> AsyncIterator[Link]:
    link = Link(database, "test")
    yield link
    await link.close()


@pytest.fixture
async def observer(migrated_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(direct(migrated_url))
    yield connection
    await connection.close()


async def test_many_links_share_few_sessions(database: Database) -> None:
    """Each link meets several sessions, or this suite would show nothing."""
    links = [Link(database, f"link {number}") for number in range(3 * SESSIONS)]
    met: list[set[int]] = [set() for _ in links]

    async def ask(number: int) -> None:
        for turn in range(20):
            rows = await links[number].fetch("select pg_backend_pid(), $1::int, 'pending'::holdfast.inbox_status", turn)
            assert tuple(rows[0])[1:] == (turn, "pending")
            met[number].add(rows[0][0])

    await asyncio.gather(*(ask(number) for number in range(len(links))))
    assert 1 < len(set.union(*met)) <= SESSIONS
    assert sum(len(pids) > 1 for pids in met) > len(links) / 2
    for link in links:
        await link.close()


async def test_many_producers_share_few_sessions(migrated_url: str) -> None:
    apps = [Holdfast(migrated_url) for _ in range(6)]
    tasks = [app.task(name="note")(lambda n: None) for app in apps]

    async def produce(number: int) -> list[Any]:
        task = tasks[number % len(tasks)]
        return [
            await task.enqueue(number),
            await task.options(idempotency_key=f"key {number // 2}").enqueue(number // 2),
            *await task.enqueue_many([{"n": n} for n in range(3)]),
            *await task.enqueue_many([{"n": n} for n in range(3)], copy=True),
        ]

    jobs = [job for made in await asyncio.gather(*map(produce, range(60))) for job in made]
    assert sum(not job.existed for job in jobs) == 60 * 7 + 30
    states = await asyncio.gather(*(apps[n % 6].job(job.id) for n, job in enumerate(jobs)))
    assert {state.status for state in states} == {"pending"}
    for app in apps:
        await app.close()


async def test_nothing_is_left_in_a_session(migrated_url: str, database: Database, observer: Any) -> None:
    hf = Holdfast(migrated_url)

    @hf.task
    async def write(ctx: TxContext) -> None:
        assert await ctx.tx.fetchval("select 'pending'::holdfast.inbox_status") == "pending"

    @hf.task
    async def once(ctx: Context) -> None:
        async with ctx.once("only"):
            pass

    @hf.task(max_attempts=1)
    async def fail() -> None:
        raise RuntimeError("no")

    async with hf.worker(poll=0.02, housekeeping="300ms") as worker:
        jobs = [await task.enqueue() for task in (write, once, fail) for _ in range(20)]
        await until(observer, "select not exists (select from holdfast.inbox where status <> 'dead_letter')")
        await asyncio.gather(*(hf.job(job.id) for job in jobs))
        assert worker.engine.tally.counters.completed == 40
    house = Housekeeper(database, 0.001, grace=0)
    await house.round()
    house._drop()
    assert await observer.fetchval("select count(*) from holdfast.chores") == len(CHORES)
    await hf.migrate()
    await hf.close()
    async with AsyncExitStack() as stack:
        sessions = [await _held(database, stack) for _ in range(SESSIONS)]
        assert len(set(sessions)) == SESSIONS, "every session of the pool was looked at"
        names = "select distinct application_name from pg_stat_activity where pid = any ($1)"
        assert [row[0] for row in await observer.fetch(names, sessions)] == ["holdfast"]
    assert await observer.fetchval("select count(*) from pg_locks where locktype = 'advisory'") == 0


async def _held(database: Database, stack: AsyncExitStack) -> int:
    """See that a session is as new, and keep it until the stack is closed."""
    connection = await database.connect("look")
    stack.push_async_callback(connection.close)
    await stack.enter_async_context(connection.transaction())
    changed = await connection.fetch("select name from pg_settings where source = 'session'")
    assert {row[0] for row in changed} <= CARRIED_OVER
    for kept in ("pg_prepared_statements", "pg_listening_channels()", "pg_cursors where name <> ''"):
        assert await connection.fetchval(f"select count(*) from {kept}") == 0
    return int(await connection.fetchval("select pg_backend_pid()"))


async def test_plans_are_pinned_for_the_transaction_only(link: Link, database: Database) -> None:
    assert {row[0]: row[1] for row in await link.fetch(PINNED, list(PLANNER))} == PLANNER
    plain = Link(database, "plain", planner=False)
    assert "on" in {row[1] for row in await plain.fetch(PINNED, list(PLANNER))}
    await plain.close()


async def test_plans_are_pinned_for_chores(database: Database) -> None:
    found = {}

    async def look(turn: Turn) -> Done:
        found.update({row[0]: row[1] for row in await turn.connection.fetch(PINNED, list(PLANNER))})
        return Done(0)

    house = Housekeeper(database, 0.001, 0, [Chore("look", 0, look)])
    await house.round()
    house._drop()
    assert found == PLANNER


async def test_a_refused_statement_leaves_the_link_as_it_was(link: Link, observer: Any) -> None:
    for _ in range(3):
        with pytest.raises(asyncpg.DivisionByZeroError):
            await link.fetch(
                "insert into holdfast.queues values ('half', now()) returning 1 / (paused_at is null)::int"
            )
        with pytest.raises(asyncpg.UndefinedColumnError):
            await link.fetch("select nothing")
        async with observer.transaction():
            await observer.execute("lock table holdfast.queues")
            with pytest.raises(Contended):
                await link.fetch("lock table holdfast.queues nowait")
        assert [tuple(row) for row in await link.fetch("select count(*) from holdfast.queues")] == [(0,)]
    assert link.connects == 1


async def test_a_call_over_its_deadline_leaves_no_transaction(link: Link, observer: Any) -> None:
    with pytest.raises(Unreachable, match="no answer within the deadline"):
        await link.fetch("insert into holdfast.queues select 'late', now() from pg_sleep(2)", deadline=0.3)
    assert await link.fetch("select 1")
    assert link.connects == 2
    await until(
        observer,
        "select not exists (select from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and (state like 'idle in transaction%' or query like '%pg_sleep%'))",
    )
    assert await observer.fetchval("select count(*) from holdfast.queues") == 0, "nor what it wrote"


async def test_who_falls_silent_in_a_transaction_keeps_no_locks(database: Database, observer: Any) -> None:
    connection = await database.connect("silent")
    await connection.execute(Link(database, "silent", deadline=300)._opening)
    await connection.execute("select pg_advisory_xact_lock(1)")
    free = "select pg_try_advisory_lock(1)"
    assert not await observer.fetchval(free)
    await until(observer, free, seconds=6)
    try:
        await connection.execute("commit")
    except Exception as told:  # how, depends on how far the news of its end have come
        assert isinstance(translate(told), Unreachable)
    else:
        pytest.fail("the transaction was not ended")
    connection.terminate()


async def test_a_pooler_that_we_were_not_told_of(migrated_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"There is a pooler at .*HOLDFAST_POOLER=1 or --pooler") as refused:
        await Link(Database(migrated_url), "claim").fetch("select 1")
    assert migrated_url not in str(refused.value), "it holds a password"


async def test_a_producer_behind_one_that_we_were_not_told_of(migrated_url: str) -> None:
    """In session mode it does. There is no limit then for a producer that falls silent inside a transaction."""
    hf = Holdfast(migrated_url, pooler=False)
    await hf.pause("mail")
    await hf.close()


@pytest.mark.parametrize(
    ("old", "new", "said"), [("/holdfast_", "/no_", "createdb"), (":", ":x", "rejected the login")]
)
async def test_what_the_pooler_refuses_is_not_asked_again(migrated_url: str, old: str, new: str, said: str) -> None:
    scheme, _, rest = migrated_url.partition("://")
    url = f"{scheme}://{rest.replace(old, new, 1)}"
    hf = Holdfast(url)
    with pytest.raises(ConfigurationError, match=said):
        await hf.pause("mail")
    with pytest.raises(ConfigurationError, match=said):
        await Link(database_at(url), "claim").fetch("select 1")
    await hf.close()


@pytest.mark.parametrize("way", ["flag", "variable", "neither"])
def test_ways_to_tell_a_worker(fleet: Fleet, way: str) -> None:
    worker = fleet.launch(
        options=["--pooler"] if way == "flag" else [],
        environment={"HOLDFAST_POOLER": "1" if way == "variable" else ""},
    )
    if way == "neither":
        assert worker.wait(60) == 78
        assert "Set Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler" in worker.log
        assert "Traceback" not in worker.log
        return
    fleet.wait_ready(worker)
    fleet.inbox.wait(fleet.inbox.enqueue_many("tx_effect", 10))
    assert worker.drain() == 0


def test_the_command_line(migrated_url: str, tmp_path: Path) -> None:
    shell = Shell(migrated_url, tmp_path)
    assert shell("health", "--no-workers", "--pooler", HOLDFAST_POOLER="").out == "healthy\n"
    assert shell("migrate", "--pooler", HOLDFAST_POOLER="").code == 0
