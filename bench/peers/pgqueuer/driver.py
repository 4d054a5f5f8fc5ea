"""PgQueuer.

Its own benchmark runs several queue managers in one process, each with a connection of its own, on asyncpg and uvloop.
Batches of 100 in two managers were the fastest of 5 × 10, 1 × 100, 1 × 500, 2 × 100 and 2 × 500. `enqueue` takes lists.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
import speech
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries

MANAGERS = 2
BATCH = 100
SETTINGS = (
    f"asyncpg and uvloop, {MANAGERS} queue managers × batch_size {BATCH}, LISTEN; bulk: enqueue of lists of 1,000"
)


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


class Client:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def one(self, payload: speech.Payload) -> object:
        return await self._queries.enqueue("noop", json.dumps(payload).encode())

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        size = len(payloads)
        return await self._queries.enqueue(["noop"] * size, [json.dumps(p).encode() for p in payloads], [0] * size)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    connection = await asyncpg.connect(url)
    try:
        yield Client(Queries(AsyncpgDriver(connection)))
    finally:
        await connection.close()


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    async def count(job: Job) -> None:
        # Numbers of a fresh database start at 1. It hands over bytes; decoding them would be the handler's own work.
        handle(job.id, None)

    async def measure(job: Job) -> None:
        handle(0, json.loads(job.payload)["sent"])

    managers = [PgQueuer(AsyncpgDriver(await asyncpg.connect(url))) for _ in range(MANAGERS)]
    for manager in managers:
        manager.entrypoint("noop")(measure if speech.of_pickup() else count)
    ready()
    await asyncio.gather(*(manager.run(batch_size=BATCH) for manager in managers))


uvloop.run(speech.run(speech.Peer("pgqueuer", SETTINGS, install, client, work)))
