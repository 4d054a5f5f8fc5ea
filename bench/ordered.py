"""Order per key: the drain of ordered jobs beside that of free ones, and beside many that are blocked."""

from __future__ import annotations

import asyncpg

from .draining import drain
from .figures import Results, at_least
from .ground import Ground, fill, settle

NEIGHBOURS = 10


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 1_000_000 if full else 100_000
    keys = jobs // NEIGHBOURS
    free, interleaved, neighbours = [], [], []
    for _ in range(3):
        free.append(await _once(ground, jobs, None, 1))
        interleaved.append(await _once(ground, jobs, "interleaved", keys))
        neighbours.append(await _once(ground, jobs, "neighbours", NEIGHBOURS))
    add = results.add
    add("ordered", f"{jobs:,} jobs, free", "jobs/s", free)
    add("ordered", f"over {keys:,} keys, interleaved", "jobs/s", interleaved)
    add("ordered", f"{NEIGHBOURS} neighbours per key", "jobs/s", neighbours)
    add("ordered", "interleaved ÷ free", "", _ratios(interleaved, free), at_least(0.6))
    add("ordered", "neighbours ÷ free", "", _ratios(neighbours, free), at_least(0.45))


def _ratios(some: list[float], others: list[float]) -> list[float]:
    return [one / other for one, other in zip(some, others, strict=True)]


async def _once(ground: Ground, jobs: int, keys: str | None, of: int) -> float:
    async with ground.database() as url:
        watch = await asyncpg.connect(url)
        try:
            await fill(watch, jobs, keys=keys, of=of)
            await settle(watch)
            return (await drain(ground, url, watch, jobs, "-c", "20")).rate
        finally:
            await watch.close()
