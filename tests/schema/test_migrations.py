"""Migrations: forward only, safe together, safe again, and equal to the golden text that reviews read.

The golden text is `golden.txt` beside this file; `landed.txt` has the checksums of the migrations, which do not change
any more. After a migration was added, renew both and review the difference:

    HOLDFAST_RENEW_GOLDEN=1 .venv/bin/pytest tests/schema tests/doctor -k golden
"""

import asyncio
import os
import re
import uuid
from hashlib import sha256
from pathlib import Path

import asyncpg
import psycopg
import pytest
from psycopg import sql
from tests.schema.catalog import describe
from tests.support.databases import Server
from tests.support.pooler import database_at, direct
from tests.support.waiting import until_blocked

from holdfast import Holdfast, SchemaError
from holdfast.schema import migrate as runner
from holdfast.schema.functions import functions
from holdfast.schema.migrate import check, migrate, migrations, newest, pending, script

GOLDEN = Path(__file__).with_name("golden.txt")
LANDED = Path(__file__).with_name("landed.txt")
"""The checksums of the migrations."""
FOLDER = Path(runner.__file__).parent / "migrations"
ALL = [migration.name for migration in migrations()]


def test_the_golden_schema(migrated_url: str) -> None:
    found = describe(migrated_url)
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_the_golden_checksums_of_landed_migrations() -> None:
    """`sha256sum -c landed.txt` in the folder of the migrations says the same."""
    landed = {name: digest for digest, name in (line.split() for line in LANDED.read_text("utf-8").splitlines())}
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("*.sql")}
    changed = [name for name, digest in landed.items() if found.get(name) != digest]
    assert not changed, (
        f"{changed}: a landed migration must not change, because databases have it already: add a new one. "
        f"If it has not landed yet, delete its line in {LANDED.name}, and renew the golden text"
    )
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        LANDED.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())), encoding="utf-8")
        return
    new = sorted(found.keys() - landed.keys())
    assert not new, f"{new}: renew the golden text, which adds it to {LANDED.name}"


PART_8 = {
    "id": ("uuid", "NO", "holdfast.uuidv7()"),
    "partition_key": ("text", "NO", None),
    "partition_bucket": ("integer", "NO", None),
    "payload": ("jsonb", "NO", None),
    "status": ("USER-DEFINED", "NO", "'pending'::holdfast.inbox_status"),
    "attempts": ("integer", "NO", "0"),
    "max_attempts": ("integer", "NO", "5"),
    "claimed_by": ("text", "YES", None),
    "claimed_at": ("timestamp with time zone", "YES", None),
    "lease_expires_at": ("timestamp with time zone", "YES", None),
    "lease_generation": ("bigint", "NO", "0"),
    "available_at": ("timestamp with time zone", "NO", "now()"),
    "completed_at": ("timestamp with time zone", "YES", None),
    "last_error": ("text", "YES", None),
    "idempotency_key": ("text", "YES", None),
    "created_at": ("timestamp with time zone", "NO", "now()"),
}


async def test_a_fresh_database_has_the_columns_of_part_8(migrated_url: str) -> None:
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        rows = await connection.fetch(
            "select column_name, data_type, is_nullable, column_default from information_schema.columns "
            "where table_schema = 'holdfast' and table_name = 'inbox'"
        )
        found = {name: tuple(rest) for name, *rest in rows}
        assert {name: found[name] for name in PART_8} == PART_8
        async with connection.transaction():
            row = await connection.fetchrow(
                """insert into holdfast.inbox (partition_key, partition_bucket, payload)
                values ('order:1', 5, '{"type": "x"}')
                returning id, status::text, lease_generation, attempts, max_attempts, available_at = now() as due,
                    created_at = now() as born, kind, queue, priority, payload_version"""
            )
        assert row is not None
        assert tuple(row)[1:] == ("pending", 0, 0, 5, True, True, "x", "default", 1, 1)
        assert row["id"].version == 7
    finally:
        await connection.close()


async def test_again_does_nothing(database_url: str) -> None:
    database = database_at(database_url)
    assert [migration.name for migration in await pending(database)] == ALL
    assert [migration.name for migration in await migrate(database)] == ALL
    before = describe(database_url)
    assert await migrate(database) == []
    assert await pending(database) == []
    assert describe(database_url) == before


@pytest.mark.parametrize("runners", [2, 8])
async def test_several_at_once(database_url: str, runners: int) -> None:
    database = database_at(database_url)
    applied = await asyncio.gather(*(migrate(database) for _ in range(runners)))
    assert sorted(migration.name for one in applied for migration in one) == sorted(ALL)
    assert describe(database_url) == GOLDEN.read_text(encoding="utf-8")


async def test_through_the_front_door(database_url: str) -> None:
    hf = Holdfast(database_url)
    assert await hf.migrate() == ALL
    assert await hf.migrate() == []


async def test_a_newer_schema_is_refused(migrated_url: str) -> None:
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        await check(connection, "holdfast")
        await connection.execute("insert into holdfast.migrations values ($1, 'of_tomorrow')", newest() + 1)
        for refused in (migrate(database_at(migrated_url)), pending(database_at(migrated_url))):
            with pytest.raises(SchemaError, match=f"at version {newest() + 1}, this release works with {newest()}"):
                await refused
        with pytest.raises(SchemaError, match=f"migration {newest() + 1} is not compatible with it"):
            await check(connection, "holdfast")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("oldest", "refused"),
    [([0], None), ([0, -3], None), ([None], 1), ([1], 1), ([0, None], 2), ([None, 0], 1), ([0, 2, 0], 2)],
)
async def test_workers_run_on_newer_schemas_that_are_marked_compatible(
    migrated_url: str, oldest: list[int | None], refused: int | None
) -> None:
    """All the migrations that they do not know must be compatible; relative to this release's version."""
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        for number, since in enumerate(oldest, start=newest() + 1):
            values = number, None if since is None else newest() + since
            await connection.execute("insert into holdfast.migrations values ($1, 'of_tomorrow', now(), $2)", *values)
        if refused is None:
            await check(connection, "holdfast")
        else:
            with pytest.raises(SchemaError, match=f"migration {newest() + refused} is not compatible with it"):
                await check(connection, "holdfast")
    finally:
        await connection.close()


def test_a_migration_says_from_which_version_on_it_is_compatible() -> None:
    compatible = {each.version: each.oldest for each in migrations() if each.oldest is not None}
    expected = dict.fromkeys(range(18, 25), 16)
    assert compatible == expected, "0025 and 0026 replace functions that workers call"
    assert runner._oldest("-- What it does.\n-- Compatible from 9: old workers do not read it.\ncreate …") == 9
    assert runner._oldest("create table compatible_from (id int)") is None


async def test_a_function_whose_body_has_changed_is_installed_again(migrated_url: str) -> None:
    database = database_at(migrated_url)
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        await connection.execute(
            "create or replace function holdfast.setting(name text) returns jsonb language sql stable return '1'::jsonb"
        )
        assert await pending(database) == [], "who changes it by hand knows what he does"
        await connection.execute("update holdfast.functions set digest = 'of another release' where name = 'setting'")
        assert [step.title for step in await pending(database)] == ["function setting"]
        assert [step.title for step in await migrate(database)] == ["function setting"]
        assert await migrate(database) == await pending(database) == []
        assert await connection.fetchval("select holdfast.setting('bucket_count')") == "1024"
        await check(connection, "holdfast")
    finally:
        await connection.close()


def test_each_file_holds_the_function_of_its_name() -> None:
    for function in functions():
        made = set(re.findall(r"create or replace function holdfast\.(\w+)\(", function.text))
        assert made == {function.name}
        assert function.text.startswith("-- "), f"{function.name}: say what it is for"


def test_functions_come_after_those_that_they_call() -> None:
    order = [function.name for function in functions()]
    assert order.index("setting") < order.index("backoff") < order.index("fail_attempts")


async def test_a_missing_or_older_schema_says_what_to_run(database_url: str) -> None:
    connection = await asyncpg.connect(direct(database_url))
    try:
        with pytest.raises(SchemaError, match=r"There is no schema 'holdfast' .* Run: holdfast migrate"):
            await check(connection, "holdfast")
        await migrate(database_at(database_url))
        await connection.execute("delete from holdfast.migrations where version = $1", newest())
        with pytest.raises(
            SchemaError, match=f"at version {migrations()[-2].version}, this release needs {newest()}. Run: holdfast"
        ):
            await check(connection, "holdfast")
    finally:
        await connection.close()


def test_the_script_makes_the_same_schema(database_url: str) -> None:
    with psycopg.connect(direct(database_url), autocommit=True) as connection:
        connection.execute(script().encode())
    assert describe(database_url) == GOLDEN.read_text(encoding="utf-8")
    assert asyncio.run(pending(database_at(database_url))) == []


@pytest.mark.parametrize("schema", ["jobs_of_shop", "order"])
async def test_another_name_works_as_well(database_url: str, schema: str) -> None:
    """Also a name that is a word of SQL."""
    hf = Holdfast(database_url, schema=schema)
    try:
        assert await hf.migrate() == ALL
        assert describe(database_url, schema) == GOLDEN.read_text(encoding="utf-8")
        noop = hf.task(name="noop")(lambda: None)
        first = await noop.options(idempotency_key="k").enqueue()
        assert (await noop.options(idempotency_key="k").enqueue()).id == first.id
        await noop.enqueue()
        await noop.enqueue_many([{}, {}])
        await noop.enqueue_many([{}, {}], copy=True)
        await hf.cancel(first.id)
        await hf.pause("default")
        await hf.resume("default")
        assert await hf.migrate() == []
    finally:
        await hf.close()
    connection = await asyncpg.connect(direct(database_url))
    try:
        id = await connection.fetchval(f"""select "{schema}".enqueue('noop')""")
        assert isinstance(id, uuid.UUID)
        assert await connection.fetchval(f"""select count(*) from "{schema}".jobs""") == 7
        assert await connection.fetchval("select to_regnamespace('holdfast')") is None
    finally:
        await connection.close()


def as_role(url: str, role: str) -> str:
    host = url.partition("@")[2]
    return f"postgresql://{role}:secret@{host}"


@pytest.mark.parametrize("may", ["create schemas", "own a schema made for it"])
async def test_by_an_ordinary_role(postgres: Server, database_url: str, may: str) -> None:
    role = f"holdfast_{uuid.uuid4().hex[:8]}"
    name = sql.Identifier(role)
    with psycopg.connect(direct(database_url), autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password 'secret'").format(name))
        try:
            if may == "create schemas":
                database = sql.Identifier(connection.info.dbname)
                connection.execute(sql.SQL("grant create on database {} to {}").format(database, name))
            else:
                connection.execute(sql.SQL("create schema holdfast authorization {}").format(name))
            assert [migration.name for migration in await migrate(database_at(as_role(database_url, role)))] == ALL
            assert describe(database_url) == GOLDEN.read_text(encoding="utf-8")
        finally:
            connection.execute(sql.SQL("drop owned by {0} cascade").format(name))
            connection.execute(sql.SQL("drop role {}").format(name))


# Locks


async def test_a_lock_that_does_not_come_is_not_waited_for_long(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for a lock blocks everyone behind it: ask briefly, let go, ask again."""
    monkeypatch.setattr(runner, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(runner, "TRIES", 2)
    holder, observer = await asyncpg.connect(direct(database_url)), await asyncpg.connect(direct(database_url))
    try:
        held = holder.transaction()
        await held.start()
        await holder.execute("select pg_advisory_xact_lock(hashtextextended('holdfast.migrate', 0))")
        with pytest.raises(
            SchemaError, match=r"could not be acquired in 2 tries of 20ms.*pg_stat_activity.*was rolled back"
        ):
            await migrate(database_at(database_url))
        assert await holder.fetchval("select to_regnamespace('holdfast')") is None
        monkeypatch.undo()
        waiting = asyncio.create_task(migrate(database_at(database_url)))
        await until_blocked(observer)
        await held.rollback()
        assert [migration.name for migration in await waiting] == ALL
    finally:
        await holder.close()
        await observer.close()


async def test_a_migration_that_fails_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = runner.Migration(2, "broken", "create table holdfast.half (); select 1/0;")
    monkeypatch.setattr(runner, "migrations", lambda schema="holdfast": (migrations()[0], broken))
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(database_at(database_url))
    connection = await asyncpg.connect(direct(database_url))
    try:
        assert await runner.version_of(connection, "holdfast") == 1
        assert await connection.fetchval("select to_regclass('holdfast.half')") is None
    finally:
        await connection.close()
