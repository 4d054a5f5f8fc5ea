"""Plans as EXPLAIN shows them."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.db.database import PIN_PLANS
from tests.support.inbox import Session


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


async def explain(session: Session, name: str, arguments: Sequence[Any], *, generic: bool = False) -> Plan:
    """The plan of an inbox statement, made for these arguments or for any."""
    mode = "force_generic_plan" if generic else "force_custom_plan"
    async with _as_a_worker(session):
        await session.connection.execute(f"set local plan_cache_mode = {mode}")
        await session.connection.execute(f"prepare explained as {session.database.sql('inbox', name)}")
        literals = ", ".join(_literal(argument) for argument in arguments)
        text = await session.connection.fetchval(f"explain (format json) execute explained ({literals})")
        await session.connection.execute("deallocate explained")
    return Plan(json.loads(text)[0]["Plan"])


async def run_explained(session: Session, name: str, *arguments: Any) -> Plan:
    """Run the statement, roll it back, and tell what it touched."""
    sql = f"explain (analyze, buffers, timing off, format json) {session.database.sql('inbox', name)}"
    async with _as_a_worker(session):
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


def _literal(value: Any) -> str:
    """As a literal without a type of its own, so that it takes the parameter's."""
    if value is None:
        return "null"
    text = "{" + ",".join(_item(item) for item in value) + "}" if isinstance(value, list) else _text(value)
    return "'" + text.replace("'", "''") + "'"


def _item(value: Any) -> str:
    return "null" if value is None else json.dumps(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return "-infinity" if value.year == 1 else value.isoformat()
    return str(value)
