"""The connections on which an event loop makes calls of its own: few, used again, and given up when in doubt."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.support.pooler import database_at

from holdfast.db import connections as module
from holdfast.db.connections import MOST, Connections
from holdfast.db.database import Connection


@pytest_asyncio.fixture
async def connections(database_url: str) -> AsyncIterator[Connections]:
    made = Connections(database_at(database_url))
    yield made
    await made.close()


async def itself(connection: Connection) -> Connection:
    await connection.fetchval("select 1")
    return connection


async def test_one_after_the_other_share_a_connection(connections: Connections) -> None:
    assert await connections.use(itself) is await connections.use(itself)


async def test_no_more_than_most_at_a_time_and_nobody_waits_for_ever(connections: Connections) -> None:
    met: set[int] = set()
    now = high = 0
    together = asyncio.Event()

    async def work(connection: Connection) -> None:
        nonlocal now, high
        now += 1
        high = max(high, now)
        met.add(id(connection))
        if now == MOST:
            together.set()
        await together.wait()  # or the last one to connect would find that the others have done all
        await connection.fetchval("select pg_sleep(0.01)")
        now -= 1

    async with asyncio.timeout(30):
        await asyncio.gather(*(connections.use(work) for _ in range(5 * MOST)))
    assert (high, len(met)) == (MOST, MOST)


async def test_a_call_that_is_broken_off_frees_its_place_and_costs_its_connection(connections: Connections) -> None:
    begun = asyncio.Event()
    used: list[Connection] = []

    async def stuck(connection: Connection) -> None:
        used.append(connection)
        begun.set()
        await connection.fetchval("select pg_sleep(60)")

    for _ in range(MOST + 1):
        begun.clear()
        call = asyncio.create_task(connections.use(stuck))
        await begun.wait()
        call.cancel()
        await asyncio.wait([call])
    assert all(connection.is_closed() for connection in used)
    await connections.use(itself)


async def test_an_error_of_the_server_costs_no_connection_unless_a_transaction_is_left_open(
    connections: Connections,
) -> None:
    first = await connections.use(itself)

    async def wrong(connection: Connection) -> None:
        await connection.execute("select 1 / 0")

    async def left_open(connection: Connection) -> None:
        await connection.execute("begin")
        await wrong(connection)

    with pytest.raises(asyncpg.DivisionByZeroError):
        await connections.use(wrong)
    assert await connections.use(itself) is first
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connections.use(left_open)
    assert first.is_closed()
    assert await connections.use(itself) is not first


async def test_one_who_stops_waiting_passes_the_turn_on(connections: Connections) -> None:
    release = asyncio.Event()

    async def hold(connection: Connection) -> None:
        await release.wait()

    holders = [asyncio.create_task(connections.use(hold)) for _ in range(MOST)]
    impatient, patient = (asyncio.create_task(connections.use(itself)) for _ in range(2))
    while len(connections._waiting) < 2:
        await asyncio.sleep(0.001)
    impatient.cancel()
    release.set()
    async with asyncio.timeout(30):
        await patient
        await asyncio.gather(*holders)
    assert impatient.cancelled()


async def test_what_nobody_uses_is_closed(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE", 0.05)
    first = await connections.use(itself)
    async with asyncio.timeout(30):
        while not first.is_closed():
            await asyncio.sleep(0.01)
    assert await connections.use(itself) is not first
