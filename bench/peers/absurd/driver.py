"""Absurd: every job is a task that could have steps.

A worker has one connection and ends each task by a commit of its own, so more tasks at a time on it gain nothing, and
several workers in one process do: each claims 100 at a time and runs them one by one. It has no LISTEN; it looks every
10 ms. There is no call for many tasks: they are spawned in one transaction.

Each step is a commit of its own, too, so workflows have 20 workers, which together run as many tasks as are asked for.
A worker claims again when all that it claimed have ended, so it claims few. For 5 steps, 20 × 1 was as fast as 10 × 2,
and 20 × 5 was faster than 10 × 10, 25 × 4, 50 × 2 and 100 × 1.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import speech
import uvloop
from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from absurdctl import BUNDLED_SCHEMA_SQL
from psycopg import AsyncConnection

STEPS = speech.steps()
WORKERS = 20 if STEPS else 8
CONCURRENCY = speech.flight(WORKERS) // WORKERS
BATCH = max(5, 2 * CONCURRENCY) if STEPS else 100
POLL = 0.01
SPAWNED = 100
SETTINGS = (
    f"psycopg (C) and uvloop, {WORKERS} workers × batch_size {BATCH}, concurrency {CONCURRENCY}, "
    f"poll_interval {POLL} s; bulk: {SPAWNED} spawns in a transaction"
)


async def install(url: str) -> None:
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(BUNDLED_SCHEMA_SQL)
        await AsyncAbsurd(connection).create_queue("default")


class Client:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._absurd = AsyncAbsurd(connection)

        @self._absurd.register_task("noop")
        async def noop(params: speech.Payload, context: object) -> None:
            """Only its name counts here."""

    async def one(self, payload: speech.Payload) -> object:
        return await self._absurd.spawn("noop", payload)

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        async with self._connection.transaction():
            return [await self._absurd.spawn("noop", payload) for payload in payloads]


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        yield Client(connection)


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    names = [f"step {n}" for n in range(STEPS)]

    async def nothing() -> None:
        pass

    async def noop(params: speech.Payload, context: AsyncTaskContext) -> None:
        handle(params["number"], params.get("sent"))
        for name in names:
            await context.step(name, nothing)

    workers = [AsyncAbsurd(await AsyncConnection.connect(url, autocommit=True)) for _ in range(WORKERS)]
    for worker in workers:
        worker.register_task("noop")(noop)
    ready()
    loops = (
        worker.start_worker(f"worker {n}", batch_size=BATCH, concurrency=CONCURRENCY, poll_interval=POLL)
        for n, worker in enumerate(workers)
    )
    await asyncio.gather(*loops)


uvloop.run(speech.run(speech.Peer("absurd-sdk", SETTINGS, install, client, work, SPAWNED)))
