"""Drain under a pinned xmin horizon, by quarters: dead index entries pile up, and the claim must not walk them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from .draining import Drained, drain
from .figures import Results, at_least
from .ground import Ground, fill, settle

HOLDERS = {
    "a snapshot is held": ("begin isolation level repeatable read", "select count(*) from holdfast.settings"),
    "a transaction id is held": ("begin", "select pg_current_xact_id()"),
    "nothing is held": (),
}
REPEATS = 3


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 300_000 if full else 60_000
    runs: dict[str, list[Drained]] = {name: [] for name in HOLDERS}
    for _ in range(REPEATS):
        for name, done in runs.items():
            done.append(await _once(ground, jobs, HOLDERS[name]))
    for name, done in runs.items():
        for quarter in range(4):
            results.add("pinned", f"{name}: quarter {quarter + 1}", "jobs/s", [r.quarters[quarter] for r in done])
        cost = [r.cpu_quarters[3] / r.cpu_quarters[0] for r in done]
        results.add("pinned", f"{name}: CPU, last ÷ first", "", cost)
        kept = [r.quarters[3] / r.quarters[0] for r in done]
        results.add("pinned", f"{name}: last ÷ first", "", kept, at_least(0.8) if HOLDERS[name] else None)


async def _once(ground: Ground, jobs: int, holder: tuple[str, ...]) -> Drained:
    async with ground.database() as url, _connection(url) as watch, _connection(url) as held:
        await fill(watch, jobs)
        await settle(watch)
        for statement in holder:
            await held.fetch(statement)
        return await drain(ground, url, watch, jobs, "-c", "20")


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()
