"""Drain under a pinned xmin horizon, by quarters: dead index entries pile up, and the claim must not walk them."""

from __future__ import annotations

from functools import partial

from .draining import Drained, drain
from .figures import Results, at_least
from .ground import Ground, connected, fill, settle
from .turns import turns

HOLDERS = {
    "snapshot": ("begin isolation level repeatable read", "select count(*) from holdfast.settings"),
    "xid": ("begin", "select pg_current_xact_id()"),
    "free": (),
}
WORDS = {"snapshot": "a snapshot is held", "xid": "a transaction id is held", "free": "nothing is held"}


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 400_000 if full else 60_000
    runs: dict[str, list[Drained]] = {name: [] for name in HOLDERS}
    async with ground.filled(partial(fill, rows=jobs)) as template:
        for name in turns(5 if full else 3, HOLDERS):
            runs[name].append(await _once(ground, template, jobs, HOLDERS[name]))
    for name, done in runs.items():
        words = f"{jobs:,} jobs, {WORDS[name]}"
        for n in range(4):
            rates = [r.quarters[n] for r in done]
            results.add("pinned", f"{words}: quarter {n + 1}", "jobs/s", rates, case=f"{name}.q{n + 1}")
        cost = [r.cpu_quarters[3] / r.cpu_quarters[0] for r in done]
        results.add("pinned", f"{words}: CPU, last ÷ first", "", cost, case=f"{name}.cpu")
        kept = [r.quarters[3] / r.quarters[0] for r in done]
        target = at_least(0.8) if HOLDERS[name] else None
        results.add("pinned", f"{words}: last ÷ first", "", kept, target, case=f"{name}.kept")


async def _once(ground: Ground, template: str, jobs: int, holder: tuple[str, ...]) -> Drained:
    async with ground.database(template) as url, connected(url) as watch, connected(url) as held:
        await settle(watch)
        for statement in holder:
            await held.fetch(statement)
        return await drain(ground, url, watch, jobs, "-c", "20")
