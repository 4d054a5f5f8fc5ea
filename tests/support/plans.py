"""Plans as EXPLAIN shows them, and as auto_explain does, which also sees the statements inside functions."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from holdfast.db.database import PIN_PLANS, Connection, Database
from tests.support.inbox import Session
from tests.support.pooler import direct


@dataclass(frozen=True)
class Plan:
    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        return _walk(self.root)

    def sorts(self) -> list[str]:
        return [node["Node Type"] for node in self.nodes() if "Sort" in node["Node Type"]]

    def reads(self, table: str) -> set[str]:
        """How a table, or its partitions, are read: index names, or the node types of other scans."""
        return {
            node.get("Index Name") or node["Node Type"]
            for node in self.nodes()
            if node.get("Relation Name", "").startswith(table) and "Scan" in node["Node Type"]
        }

    @property
    def buffers(self) -> int:
        """Pages touched, in memory or not."""
        return int(self.root["Shared Hit Blocks"]) + int(self.root["Shared Read Blocks"])


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


@dataclass(frozen=True)
class Seen:
    """A statement that ran, perhaps inside a function, and its plan."""

    text: str
    plan: Plan


class Observer:
    """One session in which every statement's plan is seen, those inside functions, too."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._seen: list[Seen] = []
        connection.add_log_listener(self._listen)

    async def watch(self, sql: str, runs: Sequence[Sequence[Any]], before: str = "") -> list[Seen]:
        """Run the statement with each of these arguments, after `before`; roll all of it back. What ran."""
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            if before:
                await self.connection.execute(before)
            prepared = await self.connection.prepare(sql)
            self._seen.clear()
            for arguments in runs:
                await prepared.fetch(*arguments)
                await self.connection.execute("select 1")  # the plan is told when the portal is closed
            await asyncio.sleep(0)  # listeners are called by the loop
            return list(self._seen)
        finally:
            await transaction.rollback()

    def _listen(self, _: Any, message: Any) -> None:
        found = re.match(r"duration: .*? plan:\n(.*)", message.message, re.DOTALL)
        if found:
            told = json.loads(found[1])
            self._seen.append(Seen(told["Query Text"], Plan(told["Plan"])))


@asynccontextmanager
async def observer(url: str, *, worker: bool, generic: bool) -> AsyncIterator[Observer]:
    """A new session with the planner settings of a worker, or the server's own, as producers have them."""
    connection = await Database(direct(url)).connect("observer", planner=worker)
    try:
        try:
            await connection.execute("load 'auto_explain'")
        except asyncpg.PostgresError as error:
            raise AssertionError(
                f"the plans are seen with auto_explain, as a superuser; the server says: {error}"
            ) from None
        settings = {
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_format": "json",
            "auto_explain.log_level": "notice",
            "plan_cache_mode": "force_generic_plan" if generic else "force_custom_plan",
        }
        await connection.execute("; ".join(f"set {name} = {value}" for name, value in settings.items()))
        yield Observer(connection)
    finally:
        await connection.close(timeout=10)


async def run_explained(session: Session, name: str, *arguments: Any, before: str = "") -> Plan:
    """Run a statement, such as `housekeeping/sweep`, or one of the inbox, after `before`; roll all of it back, and tell
    what it touched."""
    room, _, file = name.rpartition("/")
    sql = f"explain (analyze, buffers, timing off, format json) {session.database.sql(room or 'inbox', file)}"
    async with _as_a_worker(session):
        if before:
            await session.connection.execute(before)
        text = await session.connection.fetchval(sql, *arguments)
    return Plan(json.loads(text)[0]["Plan"])


@asynccontextmanager
async def _as_a_worker(session: Session) -> AsyncIterator[None]:
    """A transaction with a worker's planner settings, rolled back."""
    transaction = session.connection.transaction()
    await transaction.start()
    if session.database.pooler:
        await session.connection.execute(PIN_PLANS)  # else they are the session's
    yield
    await transaction.rollback()
