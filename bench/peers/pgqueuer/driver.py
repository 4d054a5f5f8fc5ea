"""PgQueuer.

Its own benchmark runs several queue managers in one process, each with a connection of its own, on asyncpg and uvloop.
Batches of 100 in two managers were the fastest of 5 × 10, 1 × 100, 1 × 500, 2 × 100 and 2 × 500. `enqueue` takes lists.
The fewest jobs at a time that a manager can be told to run are two: so a fleet has half as many workers.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
import speech
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, Job, PgQueuer, Queries

MANAGERS = 2
BATCH = 100
POOL = 10
SETTINGS = (
    f"asyncpg and uvloop, {MANAGERS} queue managers × batch_size {BATCH}, LISTEN; bulk: enqueue of lists of 1,000; "
    "in a fleet: one manager, batch_size 1, max_concurrent_tasks 2"
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
    if speech.many_calls_at_once():
        async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
            yield Client(Queries(AsyncpgPoolDriver(pool)))
        return
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
        payload = json.loads(job.payload)
        handle(payload["number"], payload["sent"])
        await speech.rest()

    managers = [
        PgQueuer(AsyncpgDriver(await asyncpg.connect(url))) for _ in range(1 if speech.one_hand() else MANAGERS)
    ]
    for manager in managers:
        manager.entrypoint("noop")(measure if speech.of_pickup() else count)
    ready()
    settings = {"batch_size": 1, "max_concurrent_tasks": 2} if speech.one_hand() else {"batch_size": BATCH}
    await asyncio.gather(*(manager.run(**settings) for manager in managers))


uvloop.run(speech.run(speech.Peer("pgqueuer", SETTINGS, install, client, work)))
