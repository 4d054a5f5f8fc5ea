"""What is different behind a pooler that hands out sessions one transaction at a time (PgBouncer and its like).

Two statements of one connection may meet two servers' sessions. So nothing is left in a session, and nothing is
expected there:

- no statement is kept prepared. asyncpg asks for the types of a statement first, in a trip of its own, and without a
  cache sends the text again together with the values: which session answered the first trip does not matter;
- a worker's planner settings cannot be the session's. They are set for the transaction, in the trip that begins it;
- so every statement is a transaction of several trips, and who falls silent between two of them would keep its locks:
  the server ends a session that waits too long for the next trip;
- asyncpg turns `jit` off in the session while it looks up a type that it has not met, an enum for instance, and then
  back on, perhaps in another session. It is told that this server has no such setting;
- nothing is reset when a connection goes back to a pool of ours: that would be done to somebody else's session;
- all connections have the same `application_name`. Poolers carry it over, and differing ones would cost a `SET`
  whenever a session changes hands.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import Any

import asyncpg

APPLICATION = "holdfast"
_REFUSALS = re.compile(
    "unsupported startup parameter|authentication failed|no such (user|database)|database .* does not exist"
    "|permission denied for database"
)


def arguments() -> dict[str, Any]:
    """How asyncpg is to connect."""
    return {"statement_cache_size": 0, "server_settings": {"application_name": APPLICATION}}


def refuses(error: BaseException) -> bool:
    """Is this a pooler's way to say that it will not let us in? All its words have one SQLSTATE, 08P01."""
    return isinstance(error, asyncpg.ProtocolViolationError) and _REFUSALS.search(str(error)) is not None


def takes_no_settings(error: BaseException) -> bool:
    return refuses(error) and "unsupported startup parameter" in str(error)


def knows_no_database(error: BaseException) -> bool:
    return refuses(error) and "database" in str(error)


async def tame(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Keep asyncpg's look-up of types from changing the session; see above."""
    inside: Any = connection
    with contextlib.suppress(AttributeError, ValueError):  # not a public matter; a test notices when it moves
        inside._server_caps = inside._server_caps._replace(jit=False)


async def keep(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Nothing of ours is kept in a session, so there is nothing to reset between uses."""


async def fetch(
    connection: asyncpg.Connection[asyncpg.Record], opening: str, sql: str, arguments: Sequence[Any], deadline: float
) -> list[asyncpg.Record]:
    """Run one statement in a transaction that begins with `opening`, and commit it; all of it within the deadline."""
    async with asyncio.timeout(deadline):
        await connection.execute(opening)
        try:
            rows = await connection.fetch(sql, *arguments)
        except asyncpg.PostgresError:
            if not connection.is_closed():
                await connection.execute("rollback")
            raise
        await connection.execute("commit")
        return list(rows)
