"""A queue of a dozen lines, to test what measures the real ones. TOY_FAULT makes it wrong in one way."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
import speech

FAULT = os.environ.get("TOY_FAULT", "")


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("create table toy (number int, sent float8, done_at timestamptz, steps int)")
    await connection.close()


class Client:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._lock = asyncio.Lock()

    async def one(self, payload: speech.Payload) -> object:
        return await self.many([payload])

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        rows = [(payload["number"], payload.get("sent"), None, None) for payload in payloads]
        async with self._lock:
            return await self._connection.copy_records_to_table("toy", records=rows)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    connection = await asyncpg.connect(url)
    try:
        yield Client(connection)
    finally:
        await connection.close()


SETTINGS = f"{flight} at a time" if (flight := speech.flight(0)) else "none to speak of"


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    connection = await asyncpg.connect(url)
    if FAULT == "dies":
        sys.exit("I cannot work")
    ready()
    while True:
        for number, sent in await connection.fetch("select number, sent from toy where done_at is null limit 10"):
            for _ in range(2 if FAULT == "twice" and number == 3 else 1):
                handle(number, sent)
            await speech.rest()
            steps = speech.steps() - (FAULT == "forgets" and number == 3)
            await connection.execute(
                "update toy set done_at = clock_timestamp(), steps = $2 where number = $1", number, steps
            )
        await asyncio.sleep(0.001)


asyncio.run(speech.run(speech.Peer("asyncpg", SETTINGS, install, client, work, 10)))
