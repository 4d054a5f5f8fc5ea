"""Pick-up under load: an urgent job now and then, while other jobs keep the worker busy.

Either a backlog of no-op jobs in the same queue, or one of handlers that wait 10 ms in another queue, so that all
twenty hands are taken. What an urgent job waits for is the rows that are already claimed, and a free hand.
"""

from __future__ import annotations

import asyncio
import random
import time

import asyncpg

from holdfast import Holdfast

from .app import urgent
from .draining import until
from .figures import Results, percentile
from .ground import Ground, connected, fill, settle
from .processes import worker
from .turns import turns

PAUSE = 0.05
CASES = {
    "backlog": ("beside a drain of no-op jobs", "noop", "default", 60_000),
    "hands": ("beside handlers of 10 ms on all hands", "ten_ms", "busy", 2_500),
}
"""What, of which kind and queue, and how many are there per second."""
_WAITS = "select result::text::float8 from holdfast.archive where kind = 'stamp' order by result::text::float8"


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 60 if full else 30
    waits: dict[str, list[list[float]]] = {case: [] for case in CASES}
    for case in turns(5 if full else 2, CASES):
        _, kind, queue, rate = CASES[case]
        async with ground.database() as url, connected(url) as watch:
            await fill(watch, int(jobs * PAUSE * 1.5 * rate), kind, queue=queue)
            await settle(watch)
            waits[case].append(await _once(url, watch, jobs))
    for case, (words, *_) in CASES.items():
        for share, name in ((50, "median"), (99, "99th percentile")):
            values = [percentile(share, each) for each in waits[case]]
            results.add("pickup", f"{words}: {name} of {jobs}", "ms", values, case=f"{case}.p{share}")


async def _once(url: str, watch: asyncpg.Connection, jobs: int) -> list[float]:
    """Milliseconds, ascending."""
    app = Holdfast(url)
    task = app.task(name="stamp", priority=0)(urgent._definition.function)
    try:
        with worker(url, "-c", "20", app="busy"):
            await until(watch, "select count(*) from (select from holdfast.archive limit 100) as begun", 100)
            for _ in range(jobs):
                await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))
                await task.enqueue(time.time())
            if not await watch.fetchval("select exists (select from holdfast.inbox where kind <> 'stamp')"):
                raise AssertionError("the backlog was gone before the last urgent job; CASES has to hold more")
            stamps = "select count(*) from holdfast.archive where kind = 'stamp'"
            await until(watch, stamps, jobs)
        return [row[0] * 1000 for row in await watch.fetch(_WAITS)]
    finally:
        await app.close()
