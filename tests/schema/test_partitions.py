"""The archive's partitions: made ahead, dropped by age, and never waited for."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.support.pooler import database_at, direct
from tests.support.waiting import until_blocked

from holdfast.db.link import Link
from holdfast.errors import Contended

PARTITIONS = """
    select c.relname, pg_get_expr(c.relpartbound, c.oid) as bounds
    from pg_inherits h join pg_class c on c.oid = h.inhrelid
    where h.inhparent = 'holdfast.archive'::regclass
    order by c.relname"""
ENDED = """
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, payload, payload_version, status, attempts,
        max_attempts, lease_generation, available_at, created_at, finished_at)
    values (holdfast.uuidv7(), 1, 'k', 1, 'default', 1, '{}', 1, 'completed', 1,
        5, 1, now(), now(), $1::text::timestamptz)
    returning tableoid::regclass::text"""


async def at(connection: Any, moment: str) -> None:
    """Set the clock of this installation."""
    await connection.execute(
        "create or replace function holdfast.clock() returns timestamptz language sql stable "
        f"as $$ select '{moment}'::timestamptz $$"
    )


@pytest.fixture
async def connection(migrated_url: str) -> AsyncIterator[Any]:
    """At the end of February of a leap year, before any day has a partition."""
    connection = await asyncpg.connect(direct(migrated_url))
    await at(connection, "1996-01-01 00:00Z")
    await connection.execute("set timezone = 'Asia/Kathmandu'; set datestyle = 'SQL, DMY'")  # days are UTC all the same
    for name, _ in await connection.fetch(PARTITIONS):
        if name != "archive_default":
            await connection.execute(f"drop table holdfast.{name}")
    await at(connection, "1996-02-27 23:30Z")
    yield connection
    await connection.close()


async def names(connection: Any) -> list[str]:
    return [name.removeprefix("archive_") for name, _ in await connection.fetch(PARTITIONS)]


async def test_a_migration_makes_a_week_ahead(migrated_url: str) -> None:
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        assert len(await names(connection)) == 1 + 8
        assert await connection.fetchval(ENDED, "now") != "holdfast.archive_default"
    finally:
        await connection.close()


async def test_days_are_made_ahead_once(connection: Any) -> None:
    assert await connection.fetchval("select holdfast.make_partitions(3)") == 4
    assert await connection.fetchval("select holdfast.make_partitions(3)") == 0
    assert await names(connection) == ["19960227", "19960228", "19960229", "19960301", "default"]
    assert await connection.fetchval("select holdfast.make_partitions(4)") == 1


async def test_a_job_that_ends_while_its_day_is_made_is_written_again(connection: Any, migrated_url: str) -> None:
    """Its row was on the way to the default partition, which may not take it any more."""
    observer, link = await asyncpg.connect(direct(migrated_url)), Link(database_at(migrated_url), "test")
    id = await connection.fetchval("select holdfast.enqueue('job')")
    claimed = "update holdfast.inbox set status = 'processing', claimed_by = 'w', lease_generation = 1 where id = $1"
    await connection.execute(claimed, id)

    async def complete() -> list[Any]:
        return await link.run("inbox", "complete", [id], [1], [None], [None], [None], "w", [None])

    try:
        making = connection.transaction()
        await making.start()
        assert await connection.fetchval("select holdfast.make_partitions(3)") == 4
        ending = asyncio.create_task(complete())
        await until_blocked(observer)
        await making.commit()
        with pytest.raises(Contended, match="partition constraint"):
            await ending
        assert (await complete())[0]["completed"] == 1
        assert await connection.fetchval("select tableoid::regclass::text from holdfast.archive") != (
            "holdfast.archive_default"
        )
    finally:
        await observer.close()
        await link.close()


async def test_two_that_make_the_same_days_do_not_fail(connection: Any, migrated_url: str) -> None:
    other, observer = await asyncpg.connect(direct(migrated_url)), await asyncpg.connect(direct(migrated_url))
    try:
        making = connection.transaction()
        await making.start()
        assert await connection.fetchval("select holdfast.make_partitions(3)") == 4
        second = asyncio.create_task(other.fetchval("select holdfast.make_partitions(3)"))
        await until_blocked(observer)
        await making.commit()
        assert await second == 0
    finally:
        await other.close()
        await observer.close()


async def test_rows_go_to_their_day_in_utc(connection: Any) -> None:
    await connection.execute("select holdfast.make_partitions(3)")
    for moment, day in (
        ("1996-02-27 23:59:59.999Z", "19960227"), ("1996-02-28 00:00Z", "19960228"), ("1996-02-29 12:00Z", "19960229"),
        ("1996-02-29 23:00-02", "19960301"), ("1996-02-26 23:59Z", "default"), ("1996-03-02 00:00Z", "default"),
    ):  # fmt: skip
        await connection.execute("set datestyle = 'ISO'")
        assert await connection.fetchval(ENDED, moment) == f"holdfast.archive_{day}"


@pytest.mark.parametrize(
    ("zone", "style"),
    [("Asia/Kolkata", "SQL, DMY"), ("America/Sao_Paulo", "German"), ("Pacific/Apia", "Postgres, MDY"), ("UTC", "ISO")],
)
async def test_days_are_those_of_utc_whatever_the_session_says(connection: Any, zone: str, style: str) -> None:
    """IST, as Kolkata's times are written in that style, is read as Israel's."""
    await connection.execute(f"set timezone = '{zone}'; set datestyle = '{style}'")
    assert await connection.fetchval("select holdfast.make_partitions(1)") == 2
    await connection.execute("set timezone = 'UTC'; set datestyle = 'ISO'")
    bounds = dict(await connection.fetch(PARTITIONS))
    assert bounds["archive_19960227"] == ("FOR VALUES FROM ('1996-02-27 00:00:00+00') TO ('1996-02-28 00:00:00+00')")
    assert bounds["archive_19960228"] == ("FOR VALUES FROM ('1996-02-28 00:00:00+00') TO ('1996-02-29 00:00:00+00')")


async def test_a_day_that_came_to_the_default_partition_gets_the_rest_of_its_time(connection: Any) -> None:
    """After the fleet was stopped for long, jobs end before anybody has made today's partition."""
    await connection.execute("set timezone = 'UTC'; set datestyle = 'ISO'")
    await at(connection, "1996-03-20 12:00:30Z")
    for moment in ("11:59", "12:00:29"):
        assert await connection.fetchval(ENDED, f"1996-03-20 {moment}Z") == "holdfast.archive_default"
    assert await connection.fetchval("select holdfast.make_partitions(1)") == 2
    assert await connection.fetchval("select count(*) from holdfast.archive") == 2
    assert await connection.fetchval(ENDED, "1996-03-20 12:01:59Z") == "holdfast.archive_default"
    assert await connection.fetchval(ENDED, "1996-03-20 12:02Z") == "holdfast.archive_19960320"
    assert await connection.fetchval(ENDED, "1996-03-21 00:00Z") == "holdfast.archive_19960321"
    assert await connection.fetchval("select holdfast.make_partitions(1)") == 0
    await at(connection, "1996-04-20 12:00Z")
    assert await connection.fetchval("select holdfast.drop_partitions(3)") == 2


async def test_a_day_whose_last_minute_came_to_the_default_partition_is_left_there(connection: Any) -> None:
    await connection.execute("set timezone = 'UTC'; set datestyle = 'ISO'")
    await connection.execute(ENDED, "1996-02-28 23:59:01Z")
    assert await connection.fetchval("select holdfast.make_partitions(2)") == 2
    assert await names(connection) == ["19960227", "19960229", "default"]
    assert await connection.fetchval("select holdfast.make_partitions(2)") == 0


async def test_a_day_that_a_table_of_another_name_covers_is_left_to_it(connection: Any) -> None:
    await connection.execute(
        "create table holdfast.archive_of_mine partition of holdfast.archive "
        "for values from ('1996-02-28 03:30Z') to ('1996-02-29 00:00Z')"
    )
    assert await connection.fetchval("select holdfast.make_partitions(2)") == 2


async def test_a_partition_is_indexed_like_its_parent(connection: Any) -> None:
    await connection.execute("select holdfast.make_partitions(0)")
    assert await connection.fetchval("select count(*) from pg_indexes where tablename = 'archive_19960227'") == 1


async def test_old_days_are_dropped(connection: Any) -> None:
    await connection.execute("select holdfast.make_partitions(3)")
    for day in ("1996-02-27", "1996-02-28", "1996-02-29"):
        await connection.execute(ENDED, f"{day} 12:00Z")
    await at(connection, "1996-03-02 00:00Z")
    assert await connection.fetchval("select holdfast.drop_partitions(3)") == 1, "three whole days are kept"
    assert await names(connection) == ["19960228", "19960229", "19960301", "default"]
    assert await connection.fetchval("select holdfast.drop_partitions(0)") == 3
    assert await connection.fetchval("select holdfast.drop_partitions(0)") == 0
    assert await names(connection) == ["default"]


async def test_tables_of_another_name_are_left_alone(connection: Any) -> None:
    await connection.execute("create table holdfast.archive_19950101 ()")
    await connection.execute(
        "create table holdfast.archive_of_mine partition of holdfast.archive "
        "for values from (minvalue) to ('1990-01-01Z')"
    )
    assert await connection.fetchval("select holdfast.drop_partitions(0)") == 0


async def test_a_drop_that_cannot_have_its_lock_gives_up(connection: Any, migrated_url: str) -> None:
    """An idle reader with a waiting DROP behind it would block every completion."""
    await connection.execute("select holdfast.make_partitions(1)")
    await at(connection, "1996-03-10 00:00Z")
    reader = await asyncpg.connect(direct(migrated_url))
    try:
        reading = reader.transaction()
        await reading.start()
        await reader.fetch("select id from holdfast.archive")
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with connection.transaction():
                await connection.execute("set local lock_timeout = '20ms'")
                await connection.execute("select holdfast.drop_partitions(1)")
        assert len(await names(connection)) == 3, "all still there"
        await reading.rollback()
        assert await connection.fetchval("select holdfast.drop_partitions(1)") == 2
    finally:
        await reader.close()
