"""Bring the schema to this release."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import asyncpg

from ..db.database import Connection, Database
from ..db.statements import in_schema
from ..errors import ConfigurationError, SchemaError
from ..model.keys import BUCKETS, HASH_VERSION

LOCK_TIMEOUT = "2s"
PIN_NAMES = "set local search_path = pg_catalog, pg_temp;"
"""Migrations bind names for good: none of theirs may be found in a schema that others can write to."""
TRIES = 60
PLAIN_TIMES = "set local datestyle = 'ISO'"
"""A migration writes times as text, which other styles write in ways that are read as another time."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    text: str


@cache
def migrations(schema: str = "holdfast") -> tuple[Migration, ...]:
    """Every migration of this release, in order."""
    found = []
    for file in files("holdfast").joinpath("schema", "migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            text = in_schema(file.read_text(encoding="utf-8"), schema)
            found.append(Migration(int(match[1]), match[2], text))
    return tuple(sorted(found, key=lambda migration: migration.version))


def newest() -> int:
    """The schema version of this release."""
    return migrations()[-1].version


def command(schema: str) -> str:
    """What to run to bring this schema to this release."""
    return "holdfast migrate" if schema == "holdfast" else f"holdfast migrate --schema {schema}"


def script(schema: str = "holdfast") -> str:
    """The whole schema as one SQL script, for those who apply migrations with their own tool."""
    parts = ["begin;", PIN_NAMES, f"{PLAIN_TIMES};", *_beginning(schema)]
    for migration in migrations(schema):
        parts += [f"-- {migration.version:04} {migration.name}", migration.text.strip(), _record(migration, schema)]
    return "\n\n".join([*parts, "commit;", ""])


def _beginning(schema: str) -> tuple[str, str]:
    """What the first migration stands on. The schema itself comes first: whoever may not create one, may own one."""
    return (
        f'create schema if not exists "{schema}";',
        in_schema(
            """create table if not exists holdfast.migrations (
    version    int primary key,
    name       text not null,
    applied_at timestamptz not null default now()
);""",
            schema,
        ),
    )


def _record(migration: Migration, schema: str) -> str:
    values = f"({migration.version}, '{migration.name}')"  # a number, and a name of \w alone
    return in_schema(f"insert into holdfast.migrations (version, name) values {values};", schema)  # noqa: S608 - see above


async def version_of(connection: Connection, schema: str) -> int:
    """The version of the schema in the database; 0 when there is none."""
    table = in_schema("holdfast.migrations", schema)
    if await connection.fetchval("select to_regclass($1)", table) is None:
        return 0
    newest_applied = f"select coalesce(max(version), 0) from {table}"  # noqa: S608 - a checked, quoted identifier
    return int(await connection.fetchval(newest_applied))


async def check(connection: Connection, schema: str) -> None:
    """Raise unless the schema in the database is the one of this release."""
    version = await version_of(connection, schema)
    refuse_newer(version)
    if version == 0:
        database = await connection.fetchval("select current_database()")
        raise SchemaError(f"There is no schema {schema!r} in the database {database!r}. Run: {command(schema)}")
    if version < newest():
        raise SchemaError(
            f"The schema {schema!r} is at version {version}, this release needs {newest()}. Run: {command(schema)}"
        )
    await _check_buckets(connection, schema)


async def _check_buckets(connection: Connection, schema: str) -> None:
    """A bucket is stored with its row for good: whoever counts or hashes otherwise would look in the wrong places."""
    statement = in_schema("select name, value::text from holdfast.settings where name = any ($1)", schema)
    ours = {"bucket_count": str(BUCKETS), "hash_version": str(HASH_VERSION)}
    found = {row[0]: row[1] for row in await connection.fetch(statement, list(ours))}
    for name, value in ours.items():
        if found.get(name) != value:
            raise SchemaError(
                f"The setting {name} of schema {schema!r} is {found.get(name, 'missing')}, this release works with "
                f"{value}. Put it back in {schema}.settings, or install the release that wrote it"
            )


def refuse_newer(version: int) -> None:
    if version > newest():
        raise SchemaError(
            f"The schema is at version {version}, this release knows only {newest()}. Install a newer holdfast."
        )


async def pending(database: Database) -> list[Migration]:
    """The migrations that are not applied yet."""
    connection = await database.connect("migrate")
    try:
        version = await version_of(connection, database.schema)
        refuse_newer(version)
        return [migration for migration in migrations(database.schema) if migration.version > version]
    finally:
        await connection.close()


async def migrate(database: Database) -> list[Migration]:
    """Apply what is missing; returns what was applied by this call."""
    connection = await database.connect("migrate")
    try:
        await _check_encoding(connection)
        applied = []
        while (migration := await _apply_next(connection, database.schema)) is not None:
            applied.append(migration)
        return applied
    except asyncpg.InsufficientPrivilegeError as error:
        raise ConfigurationError(
            f"{error.message} (at {database.shown}). Migrate as a role that owns the schema {database.schema!r}, or "
            "may create it: grant create on database … to …"
        ) from None
    finally:
        await connection.close()


async def _check_encoding(connection: Connection) -> None:
    row = await connection.fetchrow("select current_database(), current_setting('server_encoding')")
    assert row is not None
    name, encoding = row
    if encoding != "UTF8":
        raise ConfigurationError(
            f"The database {name!r} is encoded in {encoding}; expected UTF8, since payloads may hold any text. "
            f"Make another: createdb -E UTF8 -T template0 …"
        )


async def _apply_next(connection: Connection, schema: str) -> Migration | None:
    for attempt in range(TRIES):
        try:
            return await _try_next(connection, schema)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(0.1 + 0.1 * attempt)
    raise SchemaError(
        f"A lock that the migration needs was not free in {TRIES} tries of {LOCK_TIMEOUT}. "
        "Look for long transactions in pg_stat_activity, end them, and run it again; nothing was half done."
    )


async def _try_next(connection: Connection, schema: str) -> Migration | None:
    async with connection.transaction():
        await connection.execute(f"{PIN_NAMES} set local lock_timeout = '{LOCK_TIMEOUT}'; {PLAIN_TIMES}")
        await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{schema}.migrate")
        version = await version_of(connection, schema)
        refuse_newer(version)
        todo = [migration for migration in migrations(schema) if migration.version > version]
        if not todo:
            return None
        schema_first, table = _beginning(schema)
        if not await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", schema):
            await connection.execute(schema_first)  # also with "if not exists" it needs a right that an owner may lack
        await connection.execute(table)
        await connection.execute(todo[0].text)
        await connection.execute(_record(todo[0], schema))
        return todo[0]
