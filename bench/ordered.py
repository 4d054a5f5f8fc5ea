"""Order per key: the drain of ordered jobs beside that of free ones, and beside many that are blocked."""

from __future__ import annotations

import asyncpg

from .draining import drain, until
from .figures import Results, at_least
from .ground import Ground, fill, settle
from .processes import worker

NEIGHBOURS = 10
STUCK = 100_000

_STUCK = """
    insert into holdfast.inbox (partition_key, partition_bucket, payload, ordered, status, claimed_by, lease_expires_at)
    select 'stuck ' || n % 2, 1, '{"type": "noop", "number": 0, "note": ""}', true,
           case when n < 2 then 'processing' else 'pending' end::holdfast.inbox_status,
           case when n < 2 then 'elsewhere' end, case when n < 2 then now() + interval '1 h' end
    from generate_series(0, $1::int + 1) as n
    order by n
"""
"""Two keys whose heads are at work elsewhere, and so many rows behind them."""


async def run(ground: Ground, results: Results, full: bool) -> None:
    await _beside_blocked(ground, results)
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


async def _beside_blocked(ground: Ground, results: Results) -> None:
    alone, beside = [], []
    for _ in range(3):
        alone.append(await _beside(ground, 100_000, 0))
        beside.append(await _beside(ground, 100_000, STUCK))
    results.add("ordered", f"{STUCK:,} blocked rows ÷ none", "", _ratios(beside, alone), at_least(0.8))


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


async def _beside(ground: Ground, jobs: int, stuck: int) -> float:
    """Jobs per second of other keys, while so many rows are blocked behind two that are stuck."""
    async with ground.database() as url:
        watch = await asyncpg.connect(url)
        try:
            await watch.execute(_STUCK, stuck, timeout=300)
            with worker(url, "-c", "20"):
                await until(watch, "select count(*) from holdfast.inbox where status = 'blocked'", stuck)
                await watch.execute("insert into holdfast.queues (name, paused_at) values ('default', now())")
                await fill(watch, jobs, keys="interleaved", of=jobs // NEIGHBOURS)
                # Or autovacuum would clear up after the parking just now, on one of two cores.
                await watch.execute("vacuum analyze holdfast.inbox", timeout=300)
                await settle(watch)
                await watch.execute("update holdfast.queues set paused_at = null")
                await until(watch, "select count(*) from holdfast.archive", jobs)
            seconds = await watch.fetchval(
                "select extract(epoch from max(finished_at) - min(claimed_at))::float8 from holdfast.archive"
            )
            return jobs / float(seconds)
        finally:
            await watch.close()
