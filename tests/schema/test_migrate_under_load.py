"""A migration runs while producers and a worker go on: nothing waits long, nothing is lost."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest
from tests.support.pooler import direct
from tests.support.waiting import until_blocked

from holdfast import Holdfast
from holdfast.schema import migrate
from holdfast.schema.migrate import Migration

NEXT = migrate.newest() + 1


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release whose schema has one more column in the inbox, one index, and a replaced function."""
    addition = Migration(
        NEXT,
        "note",
        "alter table holdfast.inbox add column note text;"
        "create index idx_inbox_note on holdfast.inbox (note) where note is not null;"
        "create or replace function holdfast.clock() returns timestamptz language sql stable parallel safe"
        " as 'select statement_timestamp()';",
    )
    known = migrate.migrations
    monkeypatch.setattr(migrate, "migrations", lambda schema="holdfast": (*known(schema), addition))


async def test_a_migration_under_load_loses_nothing(migrated_url: str, next_release: None) -> None:
    hf = Holdfast(migrated_url)
    done: list[int] = []

    @hf.task
    async def note(n: int) -> None:
        done.append(n)

    sent = 0
    stop = asyncio.Event()

    async def produce() -> None:
        nonlocal sent
        while not stop.is_set():
            await note.enqueue(sent)
            sent += 1

    # The worker is of the previous release: it started before the migration and goes on after it.
    monitor = await asyncpg.connect(direct(migrated_url))
    await monitor.execute("insert into holdfast.migrations (version, name) values ($1, 'note')", NEXT)
    async with hf.worker(poll=0.02) as worker:
        await monitor.execute("delete from holdfast.migrations where version = $1", NEXT)
        producer = asyncio.create_task(produce())
        await _until(lambda: len(done) >= 50)
        reader = await asyncpg.connect(direct(migrated_url))
        transaction = reader.transaction()
        await transaction.start()
        await reader.fetchval("select count(*) from holdfast.inbox")  # holds a lock that the migration must wait for
        migration = asyncio.create_task(hf.migrate())
        await until_blocked(monitor)
        await transaction.rollback()
        assert await migration == ["note"]
        before = len(done)
        await _until(lambda: len(done) >= before + 50)
        stop.set()
        await producer
        await _until(lambda: worker.engine.tally.counters.completed == sent)
    assert sorted(done) == list(range(sent))
    assert await monitor.fetchval("select count(*) from holdfast.inbox") == 0
    await reader.close()
    await monitor.close()
    await hf.close()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
