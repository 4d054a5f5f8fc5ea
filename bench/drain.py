"""Drain: `holdfast worker -c 20`, a supervisor and one worker, on a full queue of no-op jobs."""

from __future__ import annotations

import asyncpg

from .draining import Drained, drain
from .figures import Results, at_least, at_most
from .ground import Ground, fill, settle

REPEATS = 5


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 100_000
    runs = [await _once(ground, jobs) for _ in range(REPEATS if not full else REPEATS * 2)]
    add = results.add
    add("drain", f"{jobs:,} no-op jobs", "jobs/s", [r.rate for r in runs], at_least(15_000))
    add("drain", "memory, supervisor + worker", "MB", [max(r.memory) for r in runs], at_most(150))
    add("drain", "memory, last quarter − first", "MB", [r.memory[3] - r.memory[0] for r in runs], at_most(10))
    add("drain", "CPU of supervisor + worker", "µs/job", [r.worker_cpu / jobs * 1e6 for r in runs])
    served = [r.server_cpu / jobs * 1e6 for r in runs if r.server_cpu is not None]
    if served:
        add("drain", "CPU of the server", "µs/job", served)
    add("drain", "WAL", "bytes/job", [r.wal / jobs for r in runs])


async def _once(ground: Ground, jobs: int) -> Drained:
    async with ground.database() as url:
        watch = await asyncpg.connect(url)
        try:
            await fill(watch, jobs)
            await settle(watch)
            return await drain(ground, url, watch, jobs, "-c", "20")
        finally:
            await watch.close()
