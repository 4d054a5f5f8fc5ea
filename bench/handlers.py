"""Handlers of 0, 1 and 50 ms, of each kind: coroutines, and plain functions in threads and in processes; `-c 20`."""

from __future__ import annotations

from .app import KINDS, MILLISECONDS
from .drain import once
from .figures import Results, Target, at_least
from .ground import Ground
from .turns import turns

JOBS = {0: 50_000, 1: 20_000, 50: 1_200}
"""About three seconds each."""
TARGETS: dict[tuple[str, int], Target] = {("sync", 0): at_least(10_000)}


async def run(ground: Ground, results: Results, full: bool) -> None:
    rates: dict[tuple[str, int], list[float]] = {(kind, wait): [] for kind in KINDS for wait in MILLISECONDS}
    for kind, wait in turns(5 if full else 2, rates):
        jobs = JOBS[wait] if full else JOBS[wait] // 2
        rates[kind, wait].append((await once(ground, jobs, f"{kind}_{wait}", "handlers")).rate)
    for (kind, wait), values in rates.items():
        target = TARGETS.get((kind, wait))
        results.add("handlers", f"{kind}, {wait} ms", "jobs/s", values, target, case=f"{kind}.{wait}")
