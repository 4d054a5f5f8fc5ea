"""Where the demo runs: a server, embedded or given, a separate schema on it, and a folder for the logs."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from holdfast import Holdfast
from holdfast.db.database import Connection, Database
from holdfast.db.urls import hide_password, resolve_pooler, resolve_url
from holdfast.embedded import EmbeddedPostgres

SETTINGS: dict[str, str | int] = {"max_connections": 200, "shared_buffers": "128MB"}


@dataclass(frozen=True, slots=True)
class Stage:
    url: str
    schema: str
    folder: Path
    embedded: bool

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the demo's processes, without the flags of the user's own workers."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_WORKER")},
            "HOLDFAST_DATABASE_URL": self.url,
            "HOLDFAST_DEMO_SCHEMA": self.schema,
            "HOLDFAST_DEMO_FOLDER": str(self.folder),
        }

    async def connect(self) -> Connection:
        return await Database(self.url, self.schema, resolve_pooler()).connect("demo")

    async def prepare(self) -> str:
        """Create the schema and the shop's tables; return the server's name to show."""
        await Holdfast(self.url, schema=self.schema).migrate()
        connection = await self.connect()
        try:
            await connection.execute(f"""
                create table {self.schema}.orders (
                    id bigint primary key, cents int not null, created_at timestamptz not null default now());
                create table {self.schema}.effects (
                    order_id bigint not null, kind text not null, job_id uuid not null, attempt int not null,
                    at timestamptz not null default clock_timestamp());
                update {self.schema}.settings set value = '0.1' where name = 'backoff_unit';
                update {self.schema}.settings set value = '1' where name = 'backoff_cap'
            """)
            version = str(await connection.fetchval("show server_version")).split()[0]
        finally:
            await connection.close()
        where = "embedded" if self.embedded else f"schema {self.schema}"
        return f"PostgreSQL {version}, {where}"

    async def remove(self) -> None:
        """Drop the schema, unless the whole server is removed anyway."""
        if self.embedded:
            return
        for attempt in range(20):
            connection = await self.connect()
            try:
                # The sessions of killed workers may hold locks for a moment longer.
                await connection.execute(
                    "begin; set local lock_timeout = '2s'; set local client_min_messages = warning;"
                    f"drop schema if exists {self.schema} cascade; commit"
                )
                return
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                await asyncio.sleep(0.1 * attempt)
            finally:
                await connection.close()
        raise RuntimeError(
            f"The schema {self.schema} at {hide_password(self.url)} could not be dropped: another session holds a lock."
            f" Drop it by hand: drop schema {self.schema} cascade"
        )


def given() -> str | None:
    """The URL of a server to run on."""
    return os.environ.get("HOLDFAST_DATABASE_URL")


@contextmanager
def stage() -> Iterator[Stage]:
    """The server of HOLDFAST_DATABASE_URL, or an embedded one that is removed at the end, and a temporary folder."""
    url = given()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    schema = f"holdfast_demo_{secrets.token_hex(4)}"
    try:
        if url:
            yield Stage(resolve_url(url) or url, schema, folder, embedded=False)
        else:
            with EmbeddedPostgres(SETTINGS) as server:
                yield Stage(server.url, schema, folder, embedded=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
