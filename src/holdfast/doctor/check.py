"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from ..db.database import Connection, Database
from ..model.finding import Level

MONITOR = "grant pg_monitor to {role}"


@dataclass(frozen=True, slots=True)
class Patient:
    """An installation that is examined, and the connection through which."""

    database: Database
    connection: Connection
    role: str
    sees_all: bool
    """May it see the sessions of other roles? (pg_monitor, or a superuser)"""
    pooled: bool
    """Is there a pooler in between?"""

    async def rows(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `checks/name.sql`."""
        return list(await self.connection.fetch(self.database.sql("doctor/checks", name), *arguments))

    async def row(self, name: str, *arguments: Any) -> asyncpg.Record:
        (found,) = await self.rows(name, *arguments)
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found; the name of the check and its page are added to it."""

    level: Level
    sentence: str
    figure: float | None = None
    unit: str = ""
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    page: str
    look: Callable[[Patient], Awaitable[Found]]
    needs_monitor: bool = False
    """Unseen for roles that may not see other roles' sessions, unless it has found something bad without that."""


def graded(figure: float, warn: float, fail: float) -> Level:
    """Return how bad a figure is of which less is better."""
    if figure >= fail:
        return "fail"
    return "warn" if figure >= warn else "ok"
