"""Memory of a worker process over a million jobs: how much, and whether it grows."""

from __future__ import annotations

from functools import partial

from .draining import Drained, drain
from .figures import Results, at_most
from .ground import Ground, connected, fill, settle
from .turns import turns


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 1_000_000 if full else 150_000
    runs: list[Drained] = []
    async with ground.filled(partial(fill, rows=jobs)) as template:
        for _ in turns(5 if full else 1, ["memory"]):
            async with ground.database(template) as url, connected(url) as watch:
                await settle(watch)
                runs.append(await drain(ground, url, watch, jobs, "-c", "20"))
    name = f"worker process, {jobs:,} jobs"
    results.add("memory", name, "MB", [max(r.worker_memory) for r in runs], at_most(80), case="worker")
    for n in range(4):
        sizes = [r.worker_memory[n] for r in runs]
        results.add("memory", f"{name}: quarter {n + 1}", "MB", sizes, case=f"worker.q{n + 1}")
    growth = [r.worker_memory[3] - r.worker_memory[0] for r in runs]
    results.add("memory", f"{name}: last quarter − first", "MB", growth, at_most(5), case="growth")
