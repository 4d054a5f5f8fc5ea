"""Where a run takes place: a separate schema, which is dropped at the end."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from ..db.database import Connection, Database
from ..db.safety import check_server
from ..errors import ConfigurationError, HoldfastError
from ..schema import migrate

PREFIX = "holdfast_measure_"
_PATTERN = PREFIX.replace("_", r"\_") + "%"
_PATIENCE = 30.0
"""Seconds for which dropping the schema is retried."""


class MeasureError(HoldfastError):
    """The run could not continue."""


@dataclass(slots=True)
class Place:
    database: Database
    """The database, with the schema of this run."""
    leftovers: list[str] = field(default_factory=list)
    """Schemas of runs that were killed."""
    _flag: Connection | None = None
    _made: bool = False

    @classmethod
    def beside(cls, installation: Database) -> Place:
        """A new place in the database of this installation, under an unused name."""
        name = f"{PREFIX}{secrets.token_hex(4)}"
        return cls(Database(installation.url, name, installation.pooler))

    @property
    def schema(self) -> str:
        return self.database.schema

    async def make(self) -> None:
        """Check the server and our rights, find what killed runs left, and create the schema."""
        self._flag = connection = await self.database.connect("measure")
        await check_server(connection)
        await self._check_rights(connection)
        self.leftovers = [row[0] for row in await connection.fetch(self.database.sql("measure", "leftovers"), _PATTERN)]
        # Held until the end, so that other runs can tell this schema from a leftover. In a transaction, because of
        # poolers. Without parameters: a statement that has some keeps its snapshot, and the horizon, until the next.
        await connection.execute(
            "begin; set local idle_in_transaction_session_timeout = 0; "
            f"select pg_advisory_xact_lock(hashtextextended('{self.schema}', 0))"
        )
        self._made = True
        await migrate.migrate(self.database)
        async with self.connection() as other:
            await other.execute(f"create table {self.schema}.bare (number int)")

    async def _check_rights(self, connection: Connection) -> None:
        row = await connection.fetchrow(self.database.sql("measure", "rights"))
        assert row is not None
        if not row["may"]:
            raise ConfigurationError(
                f"holdfast measure creates a schema and drops it, but the role {row['role']} may not create schemas in "
                f"the database {row['name']} (at {self.database.shown}). As the owner of the database, run: "
                f'grant create on database "{row["name"]}" to "{row["role"]}"; or use another role'
            )

    @asynccontextmanager
    async def connection(self, purpose: str = "measure") -> AsyncIterator[Connection]:
        connection = await self.database.connect(purpose)
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    async def remove(self) -> None:
        """Drop the schema. Retried, because the sessions of a worker that has just ended may still hold locks."""
        if self._made:
            end = time.monotonic() + _PATIENCE
            while not await self._dropped():
                if time.monotonic() > end:
                    raise MeasureError(
                        f"The schema {self.schema} at {self.database.shown} could not be dropped: the server is down, "
                        f"or another session holds a lock. Drop it by hand: drop schema {self.schema} cascade"
                    )
                await asyncio.sleep(0.2)
        if self._flag is not None:
            self._flag.terminate()

    async def _dropped(self) -> bool:
        try:
            async with self.connection() as connection:
                await connection.execute(
                    "begin; set local lock_timeout = '2s'; set local client_min_messages = warning; "
                    f"drop schema if exists {self.schema} cascade; commit"
                )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, HoldfastError):
            return False
        return True
