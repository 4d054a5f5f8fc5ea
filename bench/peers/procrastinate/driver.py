"""procrastinate.

It fetches one job at a time, so concurrency is what it has: 5 was as fast as 10 and faster than 50. Jobs are kept, as
by default; deleting them was a tenth faster at most. `batch_defer_async` takes many jobs.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import procrastinate
import speech
import uvloop

CONCURRENCY = 5
POOL = 6
SETTINGS = (
    f"psycopg (C) and uvloop, concurrency {CONCURRENCY}, pool of {POOL}, LISTEN; bulk: batch_defer_async of 1,000"
)


def app_of(url: str) -> procrastinate.App:
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))


async def install(url: str) -> None:
    async with app_of(url).open_async() as app:
        await app.schema_manager.apply_schema_async()


class Client:
    def __init__(self, app: procrastinate.App) -> None:
        @app.task(name="noop")
        async def noop(**payload: object) -> None:
            """Only its name counts here."""

        self._task = noop

    async def one(self, payload: speech.Payload) -> object:
        return await self._task.defer_async(**payload)

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        return await self._task.batch_defer_async(*payloads)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with app_of(url).open_async() as app:
        yield Client(app)


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    async with app_of(url).open_async() as app:

        @app.task(name="noop")
        async def noop(number: int, note: str, sent: float | None = None) -> None:
            handle(number, sent)

        ready()
        await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)


uvloop.run(speech.run(speech.Peer("procrastinate", SETTINGS, install, client, work)))
