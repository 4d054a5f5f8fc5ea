"""Advisory locks live in memory that the whole server shares; when it is used up, claims make do with less."""

import asyncio

import asyncpg
import pytest
from tests.support.databases import new_server
from tests.support.inbox import JOB, session

from holdfast.db.database import Database
from holdfast.db.link import Link
from holdfast.errors import Contended
from holdfast.inbox.claim import Known
from holdfast.inbox.guarded import KEYS, GuardedCourse
from holdfast.schema.migrate import migrate

FREE = 100


async def use_up(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Take every lock that there is, and give back a few."""
    taken = 0
    with pytest.raises(asyncpg.OutOfMemoryError):
        while True:
            await connection.fetchval("select pg_advisory_lock($1)", taken)
            taken += 1
    await connection.fetch("select pg_advisory_unlock(n) from generate_series(0, $1 - 1) n", FREE)


async def test_claims_lock_fewer_keys_when_the_lock_table_is_full() -> None:
    settings: dict[str, str | int] = {"max_locks_per_transaction": 10, "max_connections": 10, "max_worker_processes": 0}
    with new_server(settings) as server:
        database = Database(server.url)
        await migrate(database)
        async with session(server.url) as one:
            for n in range(KEYS):
                await one.add(key=f"k{n}", ordered=True)
        link = Link(database, "claim")
        course = GuardedCourse(link, "w1", ["default"], Known(JOB), 90.0)
        hoarder = await asyncpg.connect(server.url)
        await use_up(hoarder)
        refusals, claims = 0, 0
        async with asyncio.timeout(30):
            while claims < KEYS:
                try:
                    claims += len((await course.claim(KEYS)).claims)
                except Contended:
                    refusals += 1
        assert refusals >= 1
        assert link.connects == 1
        await hoarder.close()
        await link.close()
