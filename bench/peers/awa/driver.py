"""Awa (awa-pg): a Rust core that calls handlers in Python.

A slot is held until the completion is durable, so many slots: 1,024, with claims of 512, as in its own benchmark, were
faster than 64 and 256; two or four claimers cost more CPU and were no faster. `enqueue_many_copy` takes many jobs by
COPY.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import speech
import uvloop
from awa import AsyncClient

SLOTS = 1_024
CLAIM = 512
CONNECTIONS = 20
SETTINGS = (
    f"queue storage, max_workers {SLOTS}, claim_batch_size {CLAIM}, {CONNECTIONS} connections, uvloop; "
    "bulk: enqueue_many_copy of 1,000"
)


@dataclass
class Noop:
    number: int
    note: str
    sent: float | None = None


async def install(url: str) -> None:
    async with AsyncClient(url) as awa:
        await awa.migrate()
        await awa.install_queue_storage()


class Client:
    def __init__(self, awa: AsyncClient) -> None:
        self._awa = awa

    async def one(self, payload: speech.Payload) -> object:
        return await self._awa.insert(Noop(**payload))

    async def many(self, payloads: Sequence[speech.Payload]) -> object:
        return await self._awa.enqueue_many_copy([Noop(**payload) for payload in payloads])


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with AsyncClient(url) as awa:
        yield Client(awa)


async def work(url: str, handle: speech.Handle, ready: Callable[[], None]) -> None:
    awa = AsyncClient(url, max_connections=CONNECTIONS)

    @awa.task(Noop)
    async def noop(job: Any) -> None:
        handle(job.args.number, job.args.sent)

    await awa.start([{"name": "default", "max_workers": SLOTS, "claim_batch_size": CLAIM}])
    ready()
    await asyncio.Event().wait()


uvloop.run(speech.run(speech.Peer("awa-pg", SETTINGS, install, client, work)))
