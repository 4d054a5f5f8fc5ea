"""Bring the schema to this release."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import asyncpg
import msgspec

from ..db.acting import actor
from ..db.database import Connection, Database
from ..db.statements import in_schema
from ..errors import ConfigurationError, SchemaError
from ..model.keys import BUCKETS, HASH_VERSION
from .functions import Function, functions

LOCK_TIMEOUT = "2s"
PIN_NAMES = "set local search_path = pg_catalog, pg_temp;"
"""Migrations bind names permanently: none may be found in a schema that others can write to."""
TRIES = 60
PLAIN_TIMES = "set local datestyle = 'ISO'"
"""A migration writes times as text. Other styles write text that is read back as another time."""


_COMPATIBLE = re.compile(r"^-- Compatible from (\d+)\b", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    text: str
    oldest: int | None = None
    """The oldest schema version whose workers also run on this one. The file says so in a separate line, such as
    `-- Compatible from 8`. Without it, older workers must be stopped first."""

    @property
    def title(self) -> str:
        return f"{self.version:04} {self.name}"


Step = Migration | Function


@cache
def migrations(schema: str = "holdfast") -> tuple[Migration, ...]:
    """Return all migrations of this release, in order."""
    found = []
    for file in (Path(__file__).parent / "migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            text = in_schema(file.read_text(encoding="utf-8"), schema)
            found.append(Migration(int(match[1]), match[2], text, _oldest(text)))
    return tuple(sorted(found, key=lambda migration: migration.version))


def _oldest(text: str) -> int | None:
    found = _COMPATIBLE.search(text)
    return int(found[1]) if found else None


def newest() -> int:
    """Return the schema version of this release."""
    return migrations()[-1].version


def command(schema: str) -> str:
    """Return the command that brings this schema to this release."""
    return "holdfast migrate" if schema == "holdfast" else f"holdfast migrate --schema {schema}"


def script(schema: str = "holdfast") -> str:
    """Return the whole schema as one SQL script, for users who apply migrations with their own tool."""
    parts = ["begin;", PIN_NAMES, f"{PLAIN_TIMES};", *_beginning(schema)]
    for migration in migrations(schema):
        parts += [f"-- {migration.title}", migration.text.strip(), _record(migration, schema)]
    for function in functions(schema):
        parts += [function.text.strip(), _record_function(function, schema)]
    noted = in_schema(f"select holdfast.note('schema.migrated', '{newest()}');", schema)
    return "\n\n".join([*parts, noted, "commit;", ""])


def _beginning(schema: str) -> tuple[str, str]:
    """Return what the first migration needs: the schema, then its table. A role may own a schema and not create one."""
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
    values = f"{migration.version}, '{migration.name}'"  # a number, and a name of \w alone
    statement = f"insert into holdfast.migrations (version, name) values ({values});"  # noqa: S608 - see above
    if migration.oldest is not None:
        statement += f" update holdfast.migrations set oldest = {migration.oldest} where version = {migration.version};"  # noqa: S608
    return in_schema(statement, schema)


def _record_function(function: Function, schema: str) -> str:
    statement = (
        f"insert into holdfast.functions (name, digest) values ('{function.name}', '{function.digest}') "  # noqa: S608
        "on conflict (name) do update set digest = excluded.digest;"
    )
    return in_schema(statement, schema)


async def version_of(connection: Connection, schema: str) -> int:
    """Return the version of the schema in the database; 0 if there is none."""
    table = in_schema("holdfast.migrations", schema)
    if await connection.fetchval("select to_regclass($1)", table) is None:
        return 0
    newest_applied = f"select coalesce(max(version), 0) from {table}"  # noqa: S608 - a checked, quoted identifier
    return int(await connection.fetchval(newest_applied))


async def check(connection: Connection, schema: str) -> None:
    """Raise unless this release can use the schema in the database: the same version, or a newer one that is marked
    compatible."""
    version = await version_of(connection, schema)
    if version > newest():
        await _check_compatible(connection, schema, version)
    if version == 0:
        database = await connection.fetchval("select current_database()")
        raise SchemaError(f"There is no schema {schema!r} in the database {database!r}. Run: {command(schema)}")
    if version < newest():
        raise SchemaError(
            f"The schema {schema!r} is at version {version}, this release needs {newest()}. Run: {command(schema)}"
        )
    await _check_buckets(connection, schema)


async def _check_compatible(connection: Connection, schema: str, version: int) -> None:
    """Raise unless every migration that we do not know is marked compatible with this release."""
    statement = in_schema(
        "select version from holdfast.migrations where version > $1 and coalesce(oldest, version) > $1"
        " order by version limit 1",
        schema,
    )
    refused = await connection.fetchval(statement, newest())
    if refused is not None:
        raise SchemaError(
            f"The schema {schema!r} is at version {version}, this release works with {newest()}, and migration "
            f"{refused} is not compatible with it. Install a newer holdfast."
        )


async def _check_buckets(connection: Connection, schema: str) -> None:
    """Raise unless buckets are computed as here. Rows store their bucket, so another count or hash would miss them."""
    statement = in_schema("select name, value::text from holdfast.settings where name = any ($1)", schema)
    ours = {"bucket_count": str(BUCKETS), "hash_version": str(HASH_VERSION)}
    found = {row[0]: row[1] for row in await connection.fetch(statement, list(ours))}
    for name, value in ours.items():
        if found.get(name) != value:
            raise SchemaError(
                f"The setting {name} of schema {schema!r} is {found.get(name, 'missing')}, this release works with "
                f"{value}. Put it back in {schema}.settings, or install the release that wrote it"
            )


async def pending(database: Database) -> list[Step]:
    """Return the migrations that are not applied yet; if there are none, the functions whose body has changed."""
    connection = await database.connect("migrate")
    try:
        version = await version_of(connection, database.schema)
        todo = await _todo(connection, database.schema, version)
        return [*todo] if todo else [*await _changed(connection, database.schema, version)]
    finally:
        await connection.close()


async def version(database: Database) -> int:
    """The version of the schema in the database."""
    connection = await database.connect("migrate")
    try:
        return await version_of(connection, database.schema)
    finally:
        await connection.close()


async def migrate(database: Database) -> list[Step]:
    """Apply what is missing; return what this call applied, without the functions that came with a migration."""
    connection = await database.connect("migrate")
    try:
        await _check_encoding(connection)
        applied: list[Step] = []
        while steps := await _apply_next(connection, database.schema, applied):
            applied += steps
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
            f"The database {name!r} is encoded in {encoding}; expected UTF8, because payloads can contain any text. "
            f"Create another one: createdb -E UTF8 -T template0 …"
        )


async def _todo(connection: Connection, schema: str, version: int) -> list[Migration]:
    """The migrations that are missing. None on a newer schema that is marked compatible; raises on any other."""
    if version > newest():
        await _check_compatible(connection, schema, version)
    return [migration for migration in migrations(schema) if migration.version > version]


async def _changed(connection: Connection, schema: str, version: int) -> list[Function]:
    """The functions whose body differs. Those of a newer release are left alone."""
    if version > newest():
        return []
    rows = await connection.fetch(in_schema("select name, digest from holdfast.functions", schema))
    installed = {row[0]: row[1] for row in rows}
    return [function for function in functions(schema) if installed.get(function.name) != function.digest]


async def _apply_next(connection: Connection, schema: str, before: Sequence[Step]) -> list[Step]:
    for attempt in range(TRIES):
        try:
            return await _try_next(connection, schema, before)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(0.1 + 0.1 * attempt)
    raise SchemaError(
        f"A lock that the migration needs could not be acquired in {TRIES} tries of {LOCK_TIMEOUT}. "
        "Find long transactions in pg_stat_activity, end them, and run it again. The migration was rolled back."
    )


async def _try_next(connection: Connection, schema: str, before: Sequence[Step]) -> list[Step]:
    """Apply the next migration, with the functions if it is the last one; or the functions alone; or nothing.

    The last one notes all, with those that this call has applied `before`: it is one event for whoever reads the story.
    """
    async with connection.transaction():
        await connection.execute(f"{PIN_NAMES} set local lock_timeout = '{LOCK_TIMEOUT}'; {PLAIN_TIMES}")
        await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{schema}.migrate")
        version = await version_of(connection, schema)
        todo = await _todo(connection, schema, version)
        if todo:
            await _apply(connection, schema, todo[0])
        if len(todo) > 1:
            return [todo[0]]
        changed = await _changed(connection, schema, version)
        for function in changed:
            await connection.execute(f"{function.text}; {_record_function(function, schema)}")
        steps: list[Step] = [*todo] if todo else [*changed]
        if steps:
            await _note(connection, schema, [*before, *steps])
        return steps


async def _note(connection: Connection, schema: str, steps: Sequence[Step]) -> None:
    """Note it in the journal, in the same transaction."""
    statement = (
        "insert into holdfast.journal (at, what, subject, actor, count, details) "
        "values (now(), 'schema.migrated', $1, $2, $3, $4)"
    )
    titles = msgspec.json.encode({"applied": [step.title for step in steps[-20:]]}).decode()
    arguments = (str(newest()), actor(), len(steps), titles)
    await connection.execute(in_schema(statement, schema), *arguments)


async def _apply(connection: Connection, schema: str, migration: Migration) -> None:
    schema_first, table = _beginning(schema)
    if not await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", schema):
        await connection.execute(schema_first)  # even with "if not exists", it needs a right that an owner may lack
    await connection.execute(table)
    await connection.execute(migration.text)
    await connection.execute(_record(migration, schema))
