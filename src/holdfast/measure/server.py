"""Facts about the server, and about the installation in it."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from ..db.database import Connection, Database
from ..errors import HoldfastError
from .measurements import Holder, Installation, Server
from .place import Place

SETTINGS = (
    "fsync", "synchronous_commit", "synchronous_standby_names", "commit_delay", "commit_siblings", "full_page_writes",
    "shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum", "max_connections",
    "idle_in_transaction_session_timeout",
)  # fmt: skip
OLD = 30.0
"""Seconds from which a transaction counts as holding the horizon."""
_CHECKPOINTER = 170000
_LONGEST_LOOK = "5s"


async def look(place: Place) -> Server:
    async with place.connection() as connection:
        settings = await connection.fetch(place.database.sql("measure", "settings"), list(SETTINGS))
        holders = await connection.fetch(place.database.sql("measure", "holders"), OLD)
        # A pooler reports its own process ids.
        found = await connection.fetchval("select pg_backend_pid()") != connection.get_server_pid()
        return Server(
            version=str(await connection.fetchval("show server_version")).split()[0],
            settings={row["name"]: row["value"] for row in settings},
            pooler=place.database.pooler or bool(found),
            holders=[Holder(*row) for row in holders],
        )


@dataclass(frozen=True, slots=True)
class Written:
    """Counters of the whole server; only differences matter."""

    checkpoints: int
    wal: float


async def written(place: Place) -> Written:
    async with place.connection() as connection:
        new = int(await connection.fetchval("show server_version_num")) >= _CHECKPOINTER
        name = "checkpoints" if new else "checkpoints_before_17"
        checkpoints = await connection.fetchval(place.database.sql("measure", name))
        wal = await connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return Written(int(checkpoints), float(wal))


async def installation_before(database: Database) -> float | None:
    """Return how many jobs its workers have ended so far; None if there is no installation that we can read."""
    try:
        connection = await database.connect("measure")
        try:
            row = await _counts(connection, database)
            return float(row["ended"])
        finally:
            await connection.close(timeout=5)
    except (asyncpg.PostgresError, HoldfastError):
        return None


async def installation(database: Database, before: float | None, seconds: float) -> Installation | None:
    """Return the installation as it is now, with its rate since `before`."""
    if before is None:
        return None
    try:
        connection = await database.connect("measure")
        try:
            row = await _counts(connection, database)
            async with connection.transaction(readonly=True):
                await connection.execute(f"set local statement_timeout = '{_LONGEST_LOOK}'")
                rows = await connection.fetch(database.sql("views", "queues"))
                queues = [queue for queue in rows if queue["paused_at"] is None]
        finally:
            await connection.close(timeout=5)
    except (asyncpg.PostgresError, HoldfastError):
        return None
    return Installation(
        schema=database.schema,
        due=sum(queue["due"] for queue in queues),
        claim_age=max((queue["claim_age"] or 0.0 for queue in queues), default=0.0),
        live_workers=row["live_workers"],
        busy=row["busy"],
        rate=max(0.0, row["ended"] - before) / seconds,
        live_rows=row["live_rows"],
        dead_rows=row["dead_rows"],
    )


async def _counts(connection: Connection, database: Database) -> asyncpg.Record:
    row = await connection.fetchrow(database.sql("measure", "installation"))
    assert row is not None
    return row
