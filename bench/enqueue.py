"""Enqueue: one job per commit against a bare INSERT through the same driver; many per statement; COPY."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from holdfast import Holdfast
from holdfast.db.database import Connection
from holdfast.tasks import Task

from .app import NOTE, noop
from .figures import Results, at_least, ratios
from .ground import Ground, connected
from .turns import turns

Noop = Task[[int, str], None]
Work = Callable[[], Awaitable[None]]

SINGLES = 50
"""Per turn; the kinds take turns."""
MANY = 20_000
"""Jobs of one repeat, many a call."""
CALLS = {"bulk": ("enqueue_many", None, 1_000), "copy": ("COPY", True, 5_000)}
"""Words, the `copy` of enqueue_many, and jobs a call."""
_BARE = """
    insert into holdfast.inbox (id, partition_key, partition_bucket, kind, payload)
    values ($1, $2, $3, 'noop', $4)
"""


async def run(ground: Ground, results: Results, full: bool) -> None:
    await _one_by_one(ground, results, 40 if full else 15)
    rates: dict[str, list[float]] = {case: [] for case in CALLS}
    for case in turns(5, CALLS):
        rates[case].append(await many(ground, case))
    report(results, rates)


async def _one_by_one(ground: Ground, results: Results, repeats: int) -> None:
    number = iter(range(10**9))

    async def insert(connection: Connection | PoolConnectionProxy[asyncpg.Record]) -> None:
        n = next(number)
        payload = f'{{"type": "noop", "number": {n}, "note": "{NOTE}"}}'
        await connection.fetch(_BARE, _uuid(n), f"bare {n}", n % 1024, payload)

    async with _task(ground) as (url, task), connected(url) as held, asyncpg.create_pool(url, min_size=1) as pool:

        async def single() -> None:
            await task.enqueue(next(number), NOTE)

        async def bare() -> None:
            await insert(held)

        async def pooled() -> None:
            async with pool.acquire() as taken:
                await insert(taken)

        rates: dict[Work, list[float]] = {single: [], bare: [], pooled: []}
        for work in rates:
            await _rate(work, SINGLES)
        for _ in range(repeats):
            for work, values in rates.items():
                values.append(await _rate(work, SINGLES))
    ours, bares, from_pool = rates.values()
    results.add("enqueue", "one per commit", "jobs/s", ours, case="single")
    results.add("enqueue", "one per commit", "rows/s", bares, system="bare", case="single")
    words = "one per commit ÷ bare INSERT"
    results.add("enqueue", words, "", ratios(ours, bares), at_least(0.9), case="single.share")
    results.add("enqueue", f"{words} from the driver's pool", "", ratios(ours, from_pool), case="single.pool")


async def singles(ground: Ground, jobs: int) -> float:
    """Jobs per second of so many, one commit each, in a database of their own."""
    async with _task(ground) as (_, task):

        async def single() -> None:
            await task.enqueue(1, NOTE)

        await _rate(single, SINGLES)
        return await _rate(single, jobs)


async def many(ground: Ground, case: str) -> float:
    """Jobs per second of one repeat, in a database of its own."""
    _, copy, size = CALLS[case]
    rows = [{"number": n, "note": NOTE} for n in range(size)]
    async with _task(ground) as (_, task):

        async def call() -> None:
            await task.enqueue_many(rows, copy=copy)

        await call()
        return size * await _rate(call, MANY // size)


def report(results: Results, rates: dict[str, list[float]], how: str = "") -> None:
    for case, values in rates.items():
        words, _, size = CALLS[case]
        results.add("enqueue", f"{words}, {size:,} a call{how}", "jobs/s", values, case=case)


@asynccontextmanager
async def _task(ground: Ground) -> AsyncIterator[tuple[str, Noop]]:
    async with ground.database() as url:
        app = Holdfast(url)
        try:
            yield url, app.task(noop._definition.function)
        finally:
            await app.close()


async def _rate(work: Work, calls: int) -> float:
    """Calls per second."""
    began = time.perf_counter()
    for _ in range(calls):
        await work()
    return calls / (time.perf_counter() - began)


def _uuid(n: int) -> str:
    """Ascending, like ours, so that the index is met in the same way."""
    return f"{int(time.time() * 1000):012x}7{n & 0xFFF:03x}8{n:015x}"
