"""Where everything is measured: one server, a migrated template, and fresh databases with rows in them."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from holdfast.db.database import Database
from holdfast.embedded import EmbeddedPostgres
from holdfast.schema import migrate

from .app import NOTE

SETTINGS: dict[str, str | int] = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "max_connections": 120,
}
CHUNK = 50_000

_FILL = """
    with made as materialized (select holdfast.uuidv7() as id, n from generate_series($1::int, $2::int) as n)
    insert into holdfast.inbox (id, partition_key, partition_bucket, kind, payload, available_at, ordered, queue)
    select id, key, holdfast.bucket(key), $3::text,
           jsonb_build_object('type', $3::text, 'number', n, 'note', $4::text),
           clock_timestamp() + make_interval(secs => $5::float8), $6::text is not null, $8::text
    from made
    cross join lateral (
        select case $6::text when 'interleaved' then 'key ' || n % $7::int when 'neighbours' then 'key ' || n / $7::int
                             else id::text end as key
    ) as keyed
    order by n
"""
"""Keyed and ordered by $6: null for no order, else one of $7 keys in turn, or $7 neighbours of one key."""


class Ground:
    def __init__(self, url: str, postmaster: int | None) -> None:
        self._url = url
        self.postmaster = postmaster
        """Process id of the server, when it is ours to look at."""
        self.version = ""
        self._template = ""

    async def prepare(self) -> None:
        self._template = await self._create("template0")
        await migrate.migrate(Database(self._address(self._template)))
        self.version = str(await self._ask("select 'PostgreSQL ' || current_setting('server_version')"))

    async def close(self) -> None:
        await self._drop(self._template)

    @asynccontextmanager
    async def database(self, template: str | None = None) -> AsyncIterator[str]:
        """The address of a fresh database, with the schema or as a copy of one from `filled`; dropped at the end."""
        name = await self._create(template or self._template)
        try:
            if template is not None:
                async with connected(self._address(name)) as connection:
                    await connection.execute("alter table holdfast.inbox reset (autovacuum_enabled)")
            yield self._address(name)
        finally:
            await self._drop(name)

    @asynccontextmanager
    async def filled(self, prepare: Callable[[asyncpg.Connection], Awaitable[None]]) -> AsyncIterator[str]:
        """A database that is filled once, to be copied for every repeat: its name is a template for `database`.

        A copy is logged page by page, so its drain writes no more full-page images than that of a queue filled by hand.
        """
        async with self.database() as url:
            async with connected(url) as connection:
                # Or autovacuum would change it between one copy and the next.
                await connection.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
                await prepare(connection)
            yield urlsplit(url).path.removeprefix("/")

    async def _create(self, template: str) -> str:
        name = f"holdfast_bench_{secrets.token_hex(4)}"
        await self._ask(f"create database {name} template {template}")
        return name

    async def _drop(self, name: str) -> None:
        await self._ask(f"drop database if exists {name} with (force)")

    async def _ask(self, sql: str) -> object:
        connection = await asyncpg.connect(self._url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    def _address(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    existing = os.environ.get("HOLDFAST_DATABASE_URL")
    if existing:
        place = Ground(existing, None)
        await place.prepare()
        try:
            yield place
        finally:
            await place.close()
        return
    server = EmbeddedPostgres(settings=SETTINGS)
    await asyncio.to_thread(server.start)
    try:
        place = Ground(server.url, server.pid)
        await place.prepare()
        yield place
    finally:
        await asyncio.to_thread(server.close)


async def fill(
    connection: asyncpg.Connection,
    rows: int,
    kind: str = "noop",
    delay: float = 0.0,
    keys: str | None = None,
    of: int = 1,
    queue: str = "default",
) -> None:
    """Pending jobs, as enqueue would write them, made by the server itself."""
    for first in range(0, rows, CHUNK):
        last = min(first + CHUNK, rows) - 1
        await connection.execute(_FILL, first, last, kind, NOTE, delay, keys, of, queue, timeout=300)


async def settle(connection: asyncpg.Connection) -> None:
    """Wait until the background work that the filling caused has ended."""
    await connection.fetch("select pg_stat_clear_snapshot()")
    await asyncio.sleep(1)
