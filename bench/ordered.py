"""Order per key: the drain of ordered jobs beside that of free ones, and beside many that are blocked."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from .draining import drain, until, until_archived
from .figures import Results, at_least, ratios
from .ground import Ground, connected, fill, settle
from .processes import worker
from .turns import turns

NEIGHBOURS = 10
STUCK = 100_000

_STUCK = """
    insert into holdfast.inbox (
        partition_key, partition_bucket, kind, payload, ordered, status, claimed_by, lease_expires_at)
    select 'stuck ' || n % 2, 1, 'noop', '{"type": "noop", "number": 0, "note": ""}', true,
           case when n < 2 then 'processing' else 'pending' end::holdfast.inbox_status,
           case when n < 2 then 'elsewhere' end, case when n < 2 then now() + interval '1 h' end
    from generate_series(0, $1::int + 1) as n
    order by n
"""
"""Two keys whose heads are at work elsewhere, and so many rows behind them."""


async def run(ground: Ground, results: Results, full: bool) -> None:
    repeats = 5 if full else 3
    await _beside_blocked(ground, results, 5 if full else 2)
    jobs = 1_000_000 if full else 60_000
    keys = jobs // NEIGHBOURS
    filled: dict[str, tuple[str | None, int]] = {
        "free": (None, 1), "interleaved": ("interleaved", keys), "neighbours": ("neighbours", NEIGHBOURS),
    }  # fmt: skip
    rates: dict[str, list[float]] = {case: [] for case in filled}
    async with AsyncExitStack() as stack:
        templates = {
            case: await stack.enter_async_context(ground.filled(partial(fill, rows=jobs, keys=keyed, of=of)))
            for case, (keyed, of) in filled.items()
        }
        for case in turns(repeats, filled):
            rates[case].append(await _once(ground, templates[case], jobs))
    free, interleaved, neighbours = rates.values()
    add = results.add
    add("ordered", f"{jobs:,} jobs, free", "jobs/s", free, case="free")
    add("ordered", f"over {keys:,} keys, interleaved", "jobs/s", interleaved, case="interleaved")
    add("ordered", f"{NEIGHBOURS} neighbours per key", "jobs/s", neighbours, case="neighbours")
    add("ordered", "interleaved ÷ free", "", ratios(interleaved, free), at_least(0.6), case="interleaved.share")
    add("ordered", "neighbours ÷ free", "", ratios(neighbours, free), at_least(0.45), case="neighbours.share")


async def _beside_blocked(ground: Ground, results: Results, repeats: int) -> None:
    rates: dict[int, list[float]] = {0: [], STUCK: []}
    for stuck in turns(repeats, rates):
        rates[stuck].append(await _beside(ground, 100_000 if repeats > 3 else 50_000, stuck))
    kept = ratios(rates[STUCK], rates[0])
    results.add("ordered", "beside no blocked rows", "jobs/s", rates[0], case="blocked.0")
    results.add("ordered", f"beside {STUCK:,} blocked rows", "jobs/s", rates[STUCK], case=f"blocked.{STUCK}")
    results.add("ordered", f"{STUCK:,} blocked rows ÷ none", "", kept, at_least(0.8), case="blocked.kept")


async def _once(ground: Ground, template: str, jobs: int) -> float:
    async with ground.database(template) as url, connected(url) as watch:
        await settle(watch)
        return (await drain(ground, url, watch, jobs, "-c", "20")).rate


async def _beside(ground: Ground, jobs: int, stuck: int) -> float:
    """Jobs per second of other keys, while so many rows are blocked behind two that are stuck."""
    async with ground.database() as url, connected(url) as watch:
        await watch.execute(_STUCK, stuck, timeout=300)
        with worker(url, "-c", "20"):
            await until(watch, "select count(*) from holdfast.inbox where status = 'blocked'", stuck)
            await watch.execute("insert into holdfast.queues (name, paused_at) values ('default', now())")
            await fill(watch, jobs, keys="interleaved", of=jobs // NEIGHBOURS)
            # Or autovacuum would clean up after the rows that were just blocked, on one of two cores.
            await watch.execute("vacuum analyze holdfast.inbox", timeout=300)
            await settle(watch)
            await watch.execute("update holdfast.queues set paused_at = null")
            await until_archived(watch, jobs)
        seconds = await watch.fetchval(
            "select extract(epoch from max(finished_at) - min(claimed_at))::float8 from holdfast.archive"
        )
        return jobs / float(seconds)
