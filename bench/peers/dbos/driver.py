"""DBOS: every job is a workflow that could have steps.

Up to 500 at a time and a look at the queue every 10 ms were faster than 100 and 50 ms. Workflows are async, so that
none needs a thread. There is no call for many: they are enqueued in one transaction.

Steps are decorated functions; each is recorded by a commit of its own. Pools of 40 and 50 were no faster for them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import speech
import sqlalchemy
import uvloop
from dbos import DBOS, DBOSClient, DBOSConfig

CONCURRENCY = 500
POLL = 0.01
POOL = 20
TOGETHER = 100
SETTINGS = (
    f"async workflow, worker_concurrency {speech.flight(CONCURRENCY)}, polling_interval_sec {POLL}, pool of {POOL}; "
    f"bulk: {TOGETHER} enqueue_in_transaction a transaction"
)
OPTIONS: Any = {"workflow_name": "noop", "queue_name": "jobs"}


def configured(url: str) -> DBOSConfig:
    return {
        "name": "bench", "system_database_url": url, "sys_db_pool_size": POOL, "run_admin_server": False,
        "log_level": "ERROR", "application_version": "1",
    }  # fmt: skip


async def install(url: str) -> None:
    DBOS(config=configured(url))
    await asyncio.to_thread(DBOS.launch)
    flight = speech.flight(CONCURRENCY)
    await DBOS.register_queue_async("jobs", worker_concurrency=flight, polling_interval_sec=POLL)
    await asyncio.to_thread(DBOS.destroy)


class Client:
    def __init__(self, url: str) -> None:
        self._client = DBOSClient(system_database_url=url, application_name="bench")
        self._engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))

    async def one(self, payload: speech.Payload) -> object:
        return await self._client.enqueue_async(OPTIONS, payload)

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        return await asyncio.to_thread(self._together, payloads)

    def _together(self, payloads: Sequence[speech.Payload]) -> None:
        with self._engine.begin() as connection:
            for payload in payloads:
                self._client.enqueue_in_transaction(connection, OPTIONS, payload)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    yield await asyncio.to_thread(Client, url)


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    DBOS(config=configured(url))
    steps = range(speech.steps())

    @DBOS.step(name="nothing")
    async def nothing() -> None:
        pass

    @DBOS.workflow(name="noop")
    async def noop(payload: speech.Payload) -> None:
        handle(payload["number"], payload.get("sent"))
        for _ in steps:
            await nothing()

    await asyncio.to_thread(DBOS.launch)
    ready()
    await asyncio.Event().wait()


uvloop.run(speech.run(speech.Peer("dbos", SETTINGS, install, client, work, TOGETHER)))
