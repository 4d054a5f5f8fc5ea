"""Backlog: the drain of the first 10,000 jobs, with a thousand and with a million more behind them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from .draining import first
from .figures import Results, at_least, ratios
from .ground import Ground, connected, fill, settle
from .turns import turns

DRAINED = 10_000
SHALLOW = 1_000


async def run(ground: Ground, results: Results, full: bool) -> None:
    # A drain takes a quarter of a second, so many are needed.
    depths = (SHALLOW, 100_000, 1_000_000) if full else (SHALLOW, 30_000, 300_000)
    await _measure(ground, results, depths, 9 if full else 5)


async def run_deep(ground: Ground, results: Results, full: bool) -> None:
    """Up to ten million: some minutes and 10 GB of disk, so by hand."""
    await _measure(ground, results, (SHALLOW, 10_000_000), 5 if full else 3)


async def _measure(ground: Ground, results: Results, depths: tuple[int, ...], repeats: int) -> None:
    rates: dict[int, list[float]] = {depth: [] for depth in depths}
    async with AsyncExitStack() as stack:
        templates = {
            depth: await stack.enter_async_context(ground.filled(partial(fill, rows=DRAINED + depth)))
            for depth in depths
        }
        for depth in turns(repeats, depths):
            async with ground.database(templates[depth]) as url, connected(url) as watch:
                await settle(watch)
                rates[depth].append(await first(url, watch, DRAINED, "-c", "20"))
    for depth, values in rates.items():
        name = f"first {DRAINED:,}, {depth:,} behind them"
        results.add("backlog", name, "jobs/s", values, case=f"rate.{depth}")
    for depth in depths[1:]:
        kept = ratios(rates[depth], rates[SHALLOW])
        results.add("backlog", f"{depth:,} ÷ {SHALLOW:,} behind", "", kept, at_least(0.9), case=f"kept.{depth}")
