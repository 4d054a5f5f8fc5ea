"""Oban for Python (it needs Python 3.12).

A queue fetches as many jobs as its limit leaves room for and writes their ends together before the next fetch: a limit
of 500 was faster than 20 and 100, and as fast as 1,000. `enqueue_many` takes many jobs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import speech
import uvloop
from oban import Job, Oban, worker
from oban.schema import install as install_schema

LIMIT = 500
POOL = 10
SETTINGS = f"psycopg (C) and uvloop, queue limit {LIMIT}, pool of {POOL}, LISTEN; bulk: enqueue_many of 1,000"
handled: speech.Handle


@worker(queue="default")
class Noop:
    async def process(self, job: Job) -> None:
        handled(job.args["number"], job.args.get("sent"))


async def install(url: str) -> None:
    pool = await Oban.create_pool(url)
    await install_schema(pool)
    await pool.close()


class Client:
    def __init__(self, oban: Oban) -> None:
        self._oban = oban

    async def one(self, payload: speech.Payload) -> object:
        return await self._oban.enqueue(Noop.new(payload))

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        return await self._oban.enqueue_many([Noop.new(payload) for payload in payloads])


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    pool = await Oban.create_pool(url, min_size=1)
    try:
        async with Oban(pool=pool) as oban:
            yield Client(oban)
    finally:
        await pool.close()


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    global handled
    handled = handle
    pool = await Oban.create_pool(url, min_size=POOL, max_size=POOL)
    async with Oban(pool=pool, queues={"default": LIMIT}):
        ready()
        await asyncio.Event().wait()


uvloop.run(speech.run(speech.Peer("oban", SETTINGS, install, client, work)))
