"""The dashboard's own connections: four, read-only, two seconds a statement.

A viewer must not cost workers anything: a question that takes longer is ended by the server, and a fifth one waits for
its turn. Behind a pooler, where nothing can be set for a session, every statement is a transaction that sets it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from ..db import pooler
from ..db.database import Connection, Database
from ..errors import Unreachable

MOST = 4
LONGEST = 2.0
"""Seconds of a statement."""
DEADLINE = LONGEST + 3.0
_LIMIT = f"statement_timeout = {int(LONGEST * 1000)}"
_PLANS = "plan_cache_mode = force_custom_plan"
"""What is asked for varies a lot: an hour or a day, with a filter or without."""
_OPENING = f"begin read only; set local {_LIMIT}; set local {_PLANS}"
_SESSION = f"set default_transaction_read_only = on; set {_LIMIT}; set {_PLANS}; set search_path = pg_catalog, pg_temp"


class Reading:
    """Runs statements that change nothing; a `db.runner.Runner`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql`."""
        sql = self._database.sql(room, name)
        async with asyncio.timeout(DEADLINE), (await self._ready()).acquire() as connection:
            if self._database.pooler:
                return await pooler.fetch(connection, _OPENING, sql, arguments, DEADLINE)  # type: ignore[arg-type]
            return list(await connection.fetch(sql, *arguments))

    async def close(self) -> None:
        self._closed = True  # a viewer who still asks would open the pool again
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), 5)
            except TimeoutError:
                pool.terminate()

    async def _ready(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._closed:
                raise Unreachable("The dashboard has ended")
            if self._pool is None:
                own: dict[str, Any] = {} if self._database.pooler else {"init": _limited, "reset": pooler.keep}
                self._pool = await self._database.pool("dashboard", max_size=MOST, **own)
            return self._pool


async def _limited(connection: Connection) -> None:
    await connection.execute(_SESSION)
