"""The archive's partitions when tasks say for how long their completed jobs are kept."""

import random
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from tests.schema.test_partitions import PARTITIONS, at
from tests.schema.test_upgrade import released
from tests.support.pooler import database_at, direct

from holdfast.db.statements import statement
from holdfast.schema.migrate import migrate, migrations

START = date(1996, 2, 27)
ROW = """
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, payload, payload_version, status, attempts,
        max_attempts, lease_generation, available_at, created_at, finished_at, keep_days)
    select holdfast.uuidv7(), 1, 'k', 1, 'default', 1, '{}', 1, 'completed', 1,
        5, 1, now(), now(), holdfast.clock(), $1
    returning id, tableoid::regclass::text"""
LEAVES = """
    select relid::regclass::text from pg_partition_tree('holdfast.archive')
    where isleaf and relid::text <> 'holdfast.archive_default' order by 1"""


async def declare(connection: Any, *keeps: int | None, version: int = 1) -> None:
    """As a worker does, whose tasks have these numbers."""
    many = len(keeps)
    nulls = [[None] * many] * 5
    await connection.fetch(
        statement("kinds", "declare", "holdfast"), [f"kind {n}" for n in range(many)], [version] * many,
        ["shop"] * many, ["{}"] * many, *nulls, list(keeps), [False] * many,
    )  # fmt: skip


async def on(connection: Any, day: int, archive_days: int = 14) -> int:
    """Noon of this day: what housekeeping does then. Returns how much it dropped."""
    await at(connection, f"{START + timedelta(days=day)} 12:00Z")
    await connection.execute(
        "update holdfast.settings set value = to_jsonb($1::int) where name = 'archive_days'", archive_days
    )
    await connection.execute("select holdfast.make_partitions(7)")
    dropped = await connection.fetchval(statement("housekeeping", "drop_partitions", "holdfast"))
    await connection.fetch(statement("housekeeping", "forget_default", "holdfast"), 1000, (0, 0))
    return int(dropped)


async def end(connection: Any, keep: int | None) -> tuple[UUID, str]:
    """A job completes now."""
    id, table = await connection.fetchrow(ROW, keep)
    return id, table.removeprefix("holdfast.archive_")


async def there(connection: Any) -> set[UUID]:
    return {row[0] for row in await connection.fetch("select id from holdfast.archive")}


async def names(connection: Any) -> list[str]:
    """Of the days."""
    found = [name.removeprefix("archive_") for name, _ in await connection.fetch(PARTITIONS)]
    return [name for name in found if name != "default"]


@pytest.fixture
async def days(migrated_url: str) -> AsyncIterator[Any]:
    """Before any day has a partition."""
    connection = await asyncpg.connect(direct(migrated_url))
    for name in await names(connection):
        await connection.execute(f"drop table holdfast.archive_{name}")
    await at(connection, f"{START} 12:00Z")
    yield connection
    await connection.close()


async def test_without_keep_a_day_is_one_table(days: Any) -> None:
    await declare(days, None, 0)
    await on(days, 0)
    assert await days.fetchval(f"select count(*) from ({LEAVES}) l") == 8
    assert (await end(days, None))[1] == "19960227"
    assert await days.fetchval("select count(*) from holdfast.keep_classes") == 0


async def test_each_row_is_there_until_its_time_is_over_and_gone_after(days: Any) -> None:
    """Shorter and longer than archive_days, beside rows that are kept for archive_days."""
    keeps = (None, 3, 7, 45)
    await declare(days, *keeps)
    rows: dict[UUID, tuple[int, int]] = {}
    for day in range(80):
        await on(days, day)
        if day < 10:
            for keep in keeps:
                id, table = await end(days, keep)
                assert table.endswith(f"_{keep}d" if keep else "_rest")
                rows[id] = day, keep or 14
        expected = {id for id, (born, keep) in rows.items() if day - born <= keep}
        assert await there(days) == expected, day
        for name in await names(days):
            assert date.fromisoformat(name) >= START + timedelta(days=day - 45), "days without leaves are dropped"
    assert not await there(days)


async def test_a_number_that_is_declared_later_holds_the_day_and_no_other(days: Any) -> None:
    """What ended before cannot have it; days to come are made again with it."""
    await on(days, 0)
    before = await end(days, None)
    await on(days, 1)
    await declare(days, 30)
    late = await end(days, 30)
    beside = await end(days, None)
    assert (late[1], beside[1]) == ("19960228", "19960228"), "that day is one table"
    await on(days, 1)
    await on(days, 2)
    next_day, next_beside = await end(days, 30), await end(days, None)
    assert (next_day[1], next_beside[1]) == ("19960229_30d", "19960229_rest")
    await on(days, 15)
    assert await there(days) == {late[0], beside[0], next_day[0], next_beside[0]}
    assert before[0] not in await there(days)
    await on(days, 17)
    assert await there(days) == {late[0], beside[0], next_day[0]}
    await on(days, 31)
    assert late[0] in await there(days)
    await on(days, 32)
    assert await there(days) == {next_day[0]}
    await on(days, 33)
    assert not await there(days)


async def test_a_number_that_is_added_to_others(days: Any) -> None:
    await declare(days, 7)
    await on(days, 0)
    await declare(days, 7, 60)
    id, table = await end(days, 60)
    assert table == "19960227_rest"
    await on(days, 0)
    await on(days, 1)
    assert (await end(days, 60))[1] == "19960228_60d"
    await on(days, 60)
    assert id in await there(days)
    await on(days, 61)
    assert id not in await there(days)


async def test_a_task_that_changes_or_goes_takes_no_row_with_it(days: Any) -> None:
    """Also if it changes before a day has a leaf for it, and if its workers run on for a while."""
    await on(days, 0)
    await declare(days, 60)
    first, table = await end(days, 60)
    assert table == "19960227"
    await declare(days, 7)
    await days.execute("delete from holdfast.kinds")
    await on(days, 20)
    last, table = await end(days, 60)
    assert table == "19960318_60d"
    await on(days, 60)
    assert await there(days) == {first, last}
    assert (await end(days, None))[1] == "19960427", "60 and 7 are no longer in use"
    await on(days, 61)
    assert first not in await there(days)
    await on(days, 81)
    assert last not in await there(days)


async def test_a_lower_version_of_a_task_declares_its_number_too(days: Any) -> None:
    """Its workers write it, even though the kind's row is that of the newer version."""
    await declare(days, 3, version=2)
    await declare(days, 90, version=1)
    assert await days.fetchval("select keep_days from holdfast.kinds") == 3
    await on(days, 0)
    assert (await end(days, 90))[1] == "19960227_90d"


async def test_a_lower_archive_days_frees_space_at_once(days: Any) -> None:
    await declare(days, None, 3, 60)
    long = set()
    for day in range(10):
        await on(days, day)
        for keep in (None, 3, 60):
            id, _ = await end(days, keep)
            long |= {id} if keep == 60 else set()
    assert await on(days, 10, archive_days=2) == 8 + 1, "the rest of eight days, and one of 3d"
    assert await days.fetchval("select count(*) from holdfast.archive where keep_days is null") == 2
    assert long <= await there(days)
    assert await on(days, 10, archive_days=0) == 1, "a leaf is kept until its day has been over for a day"


async def test_a_fleet_that_was_stopped_for_long(days: Any) -> None:
    """All that is due goes in a few rounds. Rows go to the default partition until their day is made."""
    await declare(days, None, 3, 60, 365)
    rows = {}
    for day in range(0, 96, 8):  # made for eight days at a time
        await on(days, day, archive_days=365)
        rows[day] = [await end(days, keep) for keep in (None, 365)]
    await at(days, f"{START + timedelta(days=400)} 12:00Z")
    in_default = [await end(days, keep) for keep in (None, 3, 365)]
    assert {table for _, table in in_default} == {"default"}
    rounds = [await on(days, 400, archive_days=365)]
    while rounds[-1]:
        rounds.append(await on(days, 400, archive_days=365))
    assert max(rounds) <= 200
    assert await there(days) == {id for day, pair in rows.items() if day >= 35 for id, _ in pair} | {
        i for i, _ in in_default
    }


async def test_rows_in_the_default_partition_are_kept_as_they_say(days: Any) -> None:
    rows = {keep: (await end(days, keep))[0] for keep in (None, 3, 60)}
    assert await days.fetchval("select count(*) from holdfast.archive_default") == 3
    for day, kept in ((3, {None, 3, 60}), (5, {None, 60}), (14, {None, 60}), (16, {60}), (60, {60}), (62, set())):
        await on(days, day)
        assert await there(days) == {rows[keep] for keep in kept}, day


async def test_any_course_of_days_keeps_each_row_long_enough(days: Any) -> None:
    """Tasks that change, another archive_days, days on which nothing runs."""
    for seed in range(4):
        chance = random.Random(seed)
        await days.execute("delete from holdfast.kinds; delete from holdfast.keep_classes; truncate holdfast.archive")
        for name in await names(days):
            await days.execute(f"drop table holdfast.archive_{name}")
        keeps: list[int | None] = [None]
        rows: list[tuple[UUID, int, int | None]] = []
        lowest: dict[int, int] = {}
        archive_days, day = 10, 0
        while day < 90:
            await at(days, f"{START + timedelta(days=day)} 12:00Z")
            if chance.random() < 0.2:
                keeps = chance.sample([None, 1, 2, 3, 7, 14, 30], chance.randint(1, 3))
                await declare(days, *keeps, version=chance.randint(1, 2))
            if chance.random() < 0.1:
                archive_days = chance.choice([0, 3, 10, 25])
            if chance.random() < 0.9:  # otherwise rows come before housekeeping does
                await on(days, day, archive_days)
                lowest = {born: min(archive_days, low) for born, low in lowest.items()}
            for keep in keeps:
                rows.append(((await end(days, keep))[0], day, keep))
            lowest[day] = 10_000
            found = await there(days)
            for id, born, keep in rows:
                limit = keep if keep is not None else lowest[born]
                assert day - born > limit or id in found, (seed, day, born, keep)
            day += 1 if chance.random() < 0.9 else chance.randint(2, 12)
        await on(days, 200, archive_days)
        assert not await there(days), seed


async def test_a_leaf_is_indexed_and_a_job_is_found_in_it(days: Any) -> None:
    await declare(days, 3, 60)
    await on(days, 0)
    ids = [(await end(days, keep))[0] for keep in (None, 3, 60)]
    await on(days, 1)
    ids += [(await end(days, keep))[0] for keep in (None, 3, 60)]
    for id in ids:
        assert await days.fetchval("select count(*) from holdfast.jobs where id = $1", id) == 1
    unindexed = """
        select relid from pg_partition_tree('holdfast.archive') t where isleaf and not exists (
            select from pg_partition_tree('holdfast.idx_archive_id') x join pg_index i on i.indexrelid = x.relid
            where i.indrelid = t.relid and i.indisvalid)"""
    assert await days.fetch(unindexed) == []


async def test_what_ended_lately_is_counted_in_all_leaves(days: Any) -> None:
    await declare(days, 3, 60)
    await on(days, 0)
    for keep, ago, jobs in ((None, 90, 5000), (3, 90, 200), (60, 90, 40), (None, 1, 500), (3, 1, 20), (60, 1, 4)):
        then = ROW.partition("returning")[0].replace("holdfast.clock()", f"holdfast.clock() - interval '{ago} s'")
        await days.execute(f"{then} from generate_series(1, {jobs})", keep)
    everything = await days.fetch("select * from holdfast.ended_lately('{10, 600}', 100000)")
    assert [row["reach"] for row in everything if row["queue"] is None] == [None]
    assert sum(row["jobs"] for row in everything if row["seconds"] == 10) == 524
    assert sum(row["jobs"] for row in everything if row["seconds"] == 600) == 5764
    some = await days.fetch("select * from holdfast.ended_lately('{10, 600}', 30)")
    assert sum(row["jobs"] for row in some if row["seconds"] == 10) == 524, "the newest pages of each"
    assert sum(row["jobs"] for row in some if row["seconds"] == 600) < 5000
    assert [round(row["reach"]) for row in some if row["queue"] is None] == [90]


async def test_a_leaf_is_dropped_beside_an_open_completion(days: Any, migrated_url: str) -> None:
    """The DROP locks the leaf, its day and the rest of that day; not the archive, as that of a day does."""
    await declare(days, 3)
    await on(days, 0)
    await at(days, f"{START + timedelta(days=7)} 12:00Z")
    writer = await asyncpg.connect(direct(migrated_url))
    try:
        writing = writer.transaction()
        await writing.start()
        assert (await end(writer, 3))[1] == "19960305_3d"
        async with days.transaction():
            await days.execute("set local lock_timeout = '20ms'")
            assert await days.fetchval("select holdfast.drop_partitions(14)") == 4
            locked = "select relation::regclass::text from pg_locks where pid = pg_backend_pid() and mode = $1"
            held = {row[0] for row in await days.fetch(locked, "AccessExclusiveLock")}
            assert {"holdfast.archive_19960227", "holdfast.archive_19960227_rest"} <= held
            assert not {"holdfast.archive", "holdfast.archive_default"} & held
        await writing.rollback()
    finally:
        await writer.close()


async def test_days_to_come_that_a_reader_holds_are_made_again_later(days: Any, migrated_url: str) -> None:
    await on(days, 0)
    await declare(days, 7)
    reader = await asyncpg.connect(direct(migrated_url))
    try:
        reading = reader.transaction()
        await reading.start()
        await reader.fetch("select id from holdfast.archive")
        await days.execute("select holdfast.make_partitions(7)")
        assert "holdfast.archive_19960228" in {row[0] for row in await days.fetch(LEAVES)}
        await reading.rollback()
    finally:
        await reader.close()
    assert await days.fetchval("select holdfast.make_partitions(7)") == 7
    assert {"holdfast.archive_19960227", "holdfast.archive_19960228_7d"} <= {row[0] for row in await days.fetch(LEAVES)}


async def test_an_upgrade_with_rows_in_place(database_url: str) -> None:
    """They have no number, and are kept for archive_days."""
    released(database_url, sum(migration.version <= 18 for migration in migrations()))
    with psycopg.connect(direct(database_url)) as connection:
        row = ROW.partition("returning")[0].replace(", keep_days)", ")").replace("holdfast.clock(), $1", "now()")
        connection.execute(row.encode())
    applied = await migrate(database_at(database_url))
    assert applied[0].name == "keep_days"
    with psycopg.connect(direct(database_url)) as connection:
        assert connection.execute("select keep_days from holdfast.archive").fetchall() == [(None,)]
        assert connection.execute("select count(*) from holdfast.due_partitions(30)").fetchall() == [(0,)]
        connection.execute(
            "create or replace function holdfast.clock() returns timestamptz language sql stable "
            f"as $$ select '{datetime.now(UTC) + timedelta(days=31)}'::timestamptz $$"
        )
        assert connection.execute("select holdfast.drop_partitions(30)").fetchall() == [(1,)]
        assert connection.execute("select count(*) from holdfast.archive").fetchall() == [(0,)]
