"""Processes: one queue, drained by 1, 2, 4 and 8 worker processes; no-op jobs, and handlers that wait 50 ms.

All processes are up before the first job may be claimed, so that none of them works alone for a while.
"""

from __future__ import annotations

from .draining import check, until, until_archived
from .figures import Results, at_least, ratios
from .ground import Ground, connected, fill, settle
from .processes import worker
from .turns import turns

PROCESSES = (1, 2, 4, 8)
_SECONDS = "select extract(epoch from max(finished_at) - min(claimed_at))::float8 from holdfast.archive"
_ALIVE = "select count(*) from holdfast.workers where status = 'alive'"


async def run(ground: Ground, results: Results, full: bool) -> None:
    repeats = 5 if full else 3
    sizes = PROCESSES if full else (1, 4)
    noop = dict.fromkeys(sizes, 100_000 if full else 50_000)
    waiting = {size: size * (2_000 if full else 800) for size in sizes}
    await _measure(ground, results, "no-op", "noop", noop, repeats, "hf", 1.0)
    await _measure(ground, results, "waiting 50 ms, -c 20 each", "async_50", waiting, repeats, "handlers", 3.5)


async def _measure(
    ground: Ground, results: Results, words: str, kind: str, jobs: dict[int, int], repeats: int, app: str, goal: float
) -> None:
    rates: dict[int, list[float]] = {size: [] for size in jobs}
    for size in turns(repeats, jobs):
        rates[size].append(await _once(ground, jobs[size], kind, size, app))
    for size, values in rates.items():
        results.add("processes", f"{words}: {size}", "jobs/s", values, case=f"{kind}.{size}")
    for size in list(jobs)[1:]:
        target = at_least(goal) if size == 4 else None
        gain = ratios(rates[size], rates[1])
        results.add("processes", f"{words}: {size} ÷ 1", "", gain, target, case=f"{kind}.gain.{size}")


async def _once(ground: Ground, jobs: int, kind: str, processes: int, app: str) -> float:
    async with ground.database() as url, connected(url) as watch:
        await watch.execute("insert into holdfast.queues (name, paused_at) values ('default', now())")
        await fill(watch, jobs, kind)
        with worker(url, "-c", "20", "--processes", str(processes), "--poll", "50ms", app=app):
            await until(watch, _ALIVE, processes)
            await settle(watch)
            await watch.execute("update holdfast.queues set paused_at = null")
            await until_archived(watch, jobs)
        await check(watch, jobs, handed_back=True)
        return jobs / float(await watch.fetchval(_SECONDS))
