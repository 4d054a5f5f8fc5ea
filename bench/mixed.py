"""Mixed: jobs are enqueued and drained at once, from the first enqueue to the last completion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import asyncpg

from holdfast import Holdfast
from holdfast.tasks import Task

from .app import NOTE, noop
from .draining import check, until_archived
from .figures import Results
from .ground import Ground, connected
from .processes import worker
from .turns import turns

BULK = 1_000
PRODUCERS = 8

Produce = Callable[[Task[[int, str], object], int], Awaitable[None]]


async def _bulk(task: Task[[int, str], object], jobs: int) -> None:
    for first in range(0, jobs, BULK):
        await task.enqueue_many([{"number": n, "note": NOTE} for n in range(first, first + BULK)])


async def _single(task: Task[[int, str], object], jobs: int) -> None:
    numbers = iter(range(jobs))

    async def produce() -> None:
        for n in numbers:
            await task.enqueue(n, NOTE)

    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))


CASES: dict[str, tuple[str, Produce, int]] = {
    "bulk": (f"{BULK:,} a call", _bulk, 100_000),
    "single": (f"one per commit, {PRODUCERS} producers", _single, 10_000),
}


async def run(ground: Ground, results: Results, full: bool) -> None:
    rates: dict[str, list[float]] = {case: [] for case in CASES}
    enqueued: dict[str, list[float]] = {case: [] for case in CASES}
    for case in turns(5 if full else 3, CASES):
        _, produce, most = CASES[case]
        jobs = most if full else most // 2
        async with ground.database() as url, connected(url) as watch:
            through, sent = await _once(url, watch, produce, jobs)
        rates[case].append(jobs / through)
        enqueued[case].append(jobs / sent)
    for case, (words, _, _) in CASES.items():
        results.add("mixed", f"{words}: enqueued and drained", "jobs/s", rates[case], case=case)
        results.add("mixed", f"{words}: enqueued meanwhile", "jobs/s", enqueued[case], case=f"{case}.enqueue")


async def _once(url: str, watch: asyncpg.Connection, produce: Produce, jobs: int) -> tuple[float, float]:
    """Seconds until all had ended, and until all were enqueued."""
    app = Holdfast(url)
    task = app.task(noop._definition.function)
    try:
        with worker(url, "-c", "20"):
            await task.enqueue(-1, NOTE)
            await until_archived(watch, 1)
            began = time.time()
            await produce(task, jobs)
            sent = time.time() - began
            await until_archived(watch, jobs + 1)
        await check(watch, jobs + 1)
        ended = await watch.fetchval("select extract(epoch from max(finished_at))::float8 from holdfast.archive")
        return float(ended) - began, sent
    finally:
        await app.close()
