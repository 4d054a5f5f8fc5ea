"""Enqueue: one job per commit against a bare INSERT through the same driver; many per statement; COPY."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import asyncpg

from holdfast import Holdfast

from .app import NOTE, noop
from .figures import Results, at_least, ratios
from .ground import Ground

SINGLES = 50
"""Per turn; the two kinds take turns."""
_BARE = """
    insert into holdfast.inbox (id, partition_key, partition_bucket, payload)
    values ($1, $2, $3, $4)
"""


async def run(ground: Ground, results: Results, full: bool) -> None:
    turns = 40 if full else 15
    async with ground.database() as url:
        app = Holdfast(url)
        task = app.task(noop.definition.function)
        connection = await asyncpg.connect(url)
        number = iter(range(10**9))

        async def single() -> None:
            await task.enqueue(next(number), NOTE)

        async def bare() -> None:
            n = next(number)
            payload = f'{{"type": "noop", "number": {n}, "note": "{NOTE}"}}'
            await connection.fetch(_BARE, _uuid(n), f"bare {n}", n % 1024, payload)

        try:
            singles, bares = [], []
            for work in (single, bare):
                await _rate(work, SINGLES, 1)
            for _ in range(turns):
                singles.append(await _rate(single, SINGLES, 1))
                bares.append(await _rate(bare, SINGLES, 1))
            results.add("enqueue", "one per commit", "jobs/s", singles, case="single")
            results.add("enqueue", "one per commit", "rows/s", bares, system="bare", case="single")
            share = ratios(singles, bares)
            results.add("enqueue", "one per commit ÷ bare INSERT", "", share, at_least(0.9), case="single.share")
            for copy, name in ((None, "enqueue_many, 1,000 a call"), (True, "COPY, 5,000 a call")):
                size = 5_000 if copy else 1_000

                async def many(size: int = size, copy: bool | None = copy) -> None:
                    await task.enqueue_many([{"number": n, "note": NOTE} for n in range(size)], copy=copy)

                await _rate(many, 1, size)
                rates = [await _rate(many, 20_000 // size, size) for _ in range(5)]
                results.add("enqueue", name, "jobs/s", rates, case="copy" if copy else "bulk")
        finally:
            await connection.close()
            await app.close()


async def _rate(work: Callable[[], Awaitable[None]], calls: int, jobs: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await work()
    return calls * jobs / (time.perf_counter() - began)


def _uuid(n: int) -> str:
    """Ascending, like ours, so that the index is met in the same way."""
    return f"{int(time.time() * 1000):012x}7{n & 0xFFF:03x}8{n:015x}"
