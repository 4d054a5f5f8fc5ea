"""Drain: `holdfast worker -c 20`, a supervisor and one worker, on a full queue of no-op jobs."""

from __future__ import annotations

from .draining import Drained, drain
from .figures import Results, at_least, at_most
from .ground import Ground, connected, fill, settle
from .turns import turns


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 100_000
    runs = [await once(ground, jobs) for _ in turns(10 if full else 5, ["drain"])]
    add = results.add
    add("drain", f"{jobs:,} no-op jobs", "jobs/s", [r.rate for r in runs], at_least(15_000), case="rate")
    add("drain", "memory, supervisor + worker", "MB", [max(r.memory) for r in runs], at_most(150), case="memory")
    add("drain", "memory, last quarter − first", "MB", [r.memory[3] - r.memory[0] for r in runs], at_most(10))
    python = [r.worker_cpu / jobs * 1e6 for r in runs]
    add("drain", "CPU of supervisor + worker", "µs/job", python, case="cpu.worker")
    if served := [r.server_cpu / jobs * 1e6 for r in runs if r.server_cpu is not None]:
        both = [one + other for one, other in zip(python, served, strict=True)]
        add("drain", "CPU of the server", "µs/job", served, case="cpu.server")
        add("drain", "CPU, worker + server", "µs/job", both, at_most(35), case="cpu")
    add("drain", "WAL, with the archive row", "bytes/job", [r.wal / jobs for r in runs], case="wal")


async def once(ground: Ground, jobs: int, kind: str = "noop", app: str = "hf") -> Drained:
    """Drain so many jobs of a kind, in a database of their own."""
    async with ground.database() as url, connected(url) as watch:
        await fill(watch, jobs, kind)
        await settle(watch)
        # Rows that slow handlers keep waiting are handed back, for others.
        return await drain(ground, url, watch, jobs, "-c", "20", app=app, handed_back=kind != "noop")
