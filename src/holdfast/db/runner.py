"""What runs our statements: a link, a handler's transaction, or the calls of an application."""

from __future__ import annotations

from typing import Any, Protocol

import asyncpg


class Runner(Protocol):
    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run the statement of `room/name.sql`."""
