"""Pick-up: from the call of enqueue to the start of the handler, one job at a time on an idle worker.

Polling alone decides it: between 5 ms and the longest pause (`--poll`), so this shows the bound and nothing more.
"""

from __future__ import annotations

import asyncio
import random
import time

import asyncpg

from holdfast import Holdfast

from .app import stamp
from .draining import until_archived
from .figures import Results
from .ground import Ground
from .processes import worker


async def run(ground: Ground, results: Results, full: bool) -> None:
    for poll, jobs, pause in (("20ms", 300 if full else 100, 0.1), ("1s", 60 if full else 15, 1.0)):
        waits = await _waits(ground, poll, jobs, pause)
        for name, share in (("median", 50), ("99th percentile", 99)):
            results.add("pickup", f"--poll {poll}: {name} of {jobs}", "ms", [waits[len(waits) * share // 100]])


async def _waits(ground: Ground, poll: str, jobs: int, pause: float) -> list[float]:
    """Milliseconds, ascending."""
    async with ground.database() as url:
        app = Holdfast(url)
        task = app.task(stamp.definition.function)
        watch = await asyncpg.connect(url)
        try:
            with worker(url, "-c", "20", "--poll", poll):
                await task.enqueue(time.time())
                await until_archived(watch, 1)
                for _ in range(jobs):
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                    await task.enqueue(time.time())
                await until_archived(watch, jobs + 1)
            rows = await watch.fetch("select result::text::float8 from holdfast.archive order by seq")
            return sorted(row[0] * 1000 for row in rows[1:])
        finally:
            await watch.close()
            await app.close()
