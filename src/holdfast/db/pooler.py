"""What is different behind a pooler that assigns sessions per transaction (PgBouncer and similar).

Two statements of one connection may run in two sessions of the server. So nothing is left in a session, and nothing is
expected there:

- no statement stays prepared. asyncpg asks for the types of a statement first, in a separate round trip. Without a
  cache, it sends the text again together with the values, so it does not matter which session answered first;
- a worker's planner settings are set per transaction, in the round trip that begins it, not per session;
- so every statement is a transaction of several round trips. A client that goes silent between two of them would keep
  its locks, so the server ends a session that waits too long for the next one;
- asyncpg turns `jit` off in the session while it looks up a type that it does not know, such as an enum, and then back
  on, perhaps in another session. We tell it that this server has no such setting;
- nothing is reset when a connection returns to one of our pools: that would reset a session that others use;
- all connections have the same `application_name`. Poolers carry it over, and different ones would cost a `SET`
  whenever a session is assigned to another connection.
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
    """Return the arguments with which asyncpg connects."""
    return {"statement_cache_size": 0, "server_settings": {"application_name": APPLICATION}}


def refuses(error: BaseException) -> bool:
    """Return whether a pooler rejected the login. All its errors have the same SQLSTATE, 08P01."""
    return isinstance(error, asyncpg.ProtocolViolationError) and _REFUSALS.search(str(error)) is not None


def takes_no_settings(error: BaseException) -> bool:
    return refuses(error) and "unsupported startup parameter" in str(error)


def knows_no_database(error: BaseException) -> bool:
    return refuses(error) and "database" in str(error)


async def tame(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Keep asyncpg's lookup of types from changing the session; see above."""
    inside: Any = connection
    with contextlib.suppress(AttributeError, ValueError):  # not public; a test fails if asyncpg changes it
        inside._server_caps = inside._server_caps._replace(jit=False)


async def keep(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Do nothing: we keep nothing in a session, so there is nothing to reset between uses."""


async def fetch(
    connection: asyncpg.Connection[asyncpg.Record], opening: str, sql: str, arguments: Sequence[Any], deadline: float
) -> list[asyncpg.Record]:
    """Run one statement in a transaction that begins with `opening`, and commit it, all within the deadline."""
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
