"""An application with its tasks, on a migrated database with a table of the caller's own."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from tests.conftest import migrated
from tests.enqueue.doors import installation
from tests.support.databases import Server
from tests.support.pooler import direct

from holdfast import Holdfast, Task


class Inbox:
    """The database as a bystander sees it: only what was committed."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection

    async def jobs(self, columns: str = "id, kind, payload") -> list[asyncpg.Record]:
        return await self.connection.fetch(f"select {columns} from holdfast.inbox order by seq")

    async def count(self, table: str = "holdfast.inbox") -> int:
        return int(await self.connection.fetchval(f"select count(*) from {table}"))


@pytest.fixture(scope="module")
def shared_url(postgres: Server) -> Iterator[str]:
    with postgres.database(migrated(postgres)) as url:
        yield url


@pytest.fixture
def migrated_url(shared_url: str) -> str:
    """One database for the whole module, emptied for each test: a copy for each would take most of the time."""
    with psycopg.connect(direct(shared_url)) as connection:
        for table in ("inbox", "archive", "dedupe", "events", "routes"):
            connection.execute(f"delete from holdfast.{table}".encode())
        connection.execute("drop table if exists orders")
    return shared_url


@pytest.fixture
async def hf(migrated_url: str) -> AsyncIterator[Holdfast]:
    async with installation(migrated_url) as app:
        yield app


@pytest.fixture
def send_receipt(hf: Holdfast) -> Task[..., None]:
    @hf.task(queue="mail", max_attempts=7, priority=2)
    def send_receipt(order_id: int, note: str = "") -> None: ...

    return send_receipt


@pytest.fixture
async def inbox(migrated_url: str) -> AsyncIterator[Inbox]:
    connection: Any = await asyncpg.connect(direct(migrated_url))
    await connection.execute("create table orders (id int primary key)")
    try:
        yield Inbox(connection)
    finally:
        await connection.close()
