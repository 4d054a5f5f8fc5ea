"""Pick-up: from the call of enqueue to the start of the handler, one job at a time on an idle worker.

With wake-ups the path is: commit of the job, notification, commit of the claim, so it is held against bare commits of
the same run. Without them, polling alone decides it: between 5 ms and the longest pause (`--poll`). The pauses between
jobs are long enough for the worker to fall asleep, but for one row, whose jobs come while it is falling asleep.

Then come the paces and bursts of `paces`; with peers beside us, they are left to the race, where all take turns.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import asyncpg

from holdfast import Holdfast

from . import paces
from .app import stamp
from .draining import until_archived
from .figures import OURS, Results, Target, at_most, percentile, ratios
from .ground import Ground, connected
from .processes import worker
from .turn.measured import Measured
from .turn.start import turn
from .turns import turns


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    words: str
    options: Sequence[str]
    pause: float
    """Mean seconds between jobs."""
    jobs: int
    """Per repeat, in full size."""
    p50: Target | None = None
    p99: Target | None = None
    """Of the share in the 99th percentile of a bare commit."""

    def __str__(self) -> str:
        return self.words


CASES = (
    Case("idle", "wake-ups, asleep", (), 0.4, 100, at_most(2.5), at_most(2)),
    Case("fleet", "wake-ups, a fleet of eight asleep", ("--processes", "8"), 0.4, 30, at_most(10)),
    Case("dozing", "wake-ups, falling asleep", (), 0.1, 50),
    Case("poll.20ms", "--no-notify --poll 20ms", ("--no-notify", "--poll", "20ms"), 0.1, 50),
    Case("poll.1s", "--no-notify --poll 1s", ("--no-notify",), 1.0, 15),
)


async def run(ground: Ground, results: Results, full: bool) -> None:
    waits: dict[str, list[list[float]]] = {case.name: [] for case in CASES}
    commits: dict[str, list[list[float]]] = {case.name: [] for case in CASES}
    for case in turns(5 if full else 2, CASES):
        of_jobs, of_commits = await _waits(
            ground, case.options, case.jobs if full else max(case.jobs // 4, 10), case.pause
        )
        waits[case.name].append(of_jobs)
        commits[case.name].append(of_commits)
    for case in CASES:
        ours = {share: [percentile(share, each) for each in waits[case.name]] for share in (50, 99)}
        bare = {share: [percentile(share, each) for each in commits[case.name]] for share in (50, 99)}
        jobs = len(waits[case.name][0])
        for share, words in ((50, "median"), (99, "99th percentile")):
            name = f"{case.name}.p{share}"
            target = case.p50 if share == 50 else None
            results.add("pickup", f"{case.words}: {words} of {jobs}", "ms", ours[share], target, case=name)
            if case.p50:
                results.add("pickup", f"a commit: {words} of {jobs}", "ms", bare[share], system="bare", case=name)
        if case.p99:
            words = f"{case.words}: 99th percentile ÷ that of a bare commit"
            results.add("pickup", words, "", ratios(ours[99], bare[99]), case.p99, case=f"{case.name}.p99.share")
    if not results.beside:
        await _at_paces(ground, results)


async def _at_paces(ground: Ground, results: Results) -> None:
    found = Pickups()
    for _ in turns(paces.REPEATS[results.size], ["paces and bursts"]):
        await measure(ground, results.size, found)
    found.report(results, OURS)


async def measure(ground: Ground, size: str, found: Pickups) -> None:
    """One turn of ours, its producers in processes of their own."""
    for case in ("paces", "bursts"):
        async with ground.database() as url:
            for measured in await turn(case, size, url, ground.postmaster):
                found.add(measured)


class Pickups:
    """Waits of one system at each pace and in each burst, turn by turn."""

    def __init__(self) -> None:
        self._turns: dict[str, list[Measured]] = {}

    def add(self, measured: Measured) -> None:
        self._turns.setdefault(measured.case, []).append(measured)

    def said(self) -> str:
        """The median at each pace, of the last turn."""
        last = {case: each[-1].values for case, each in self._turns.items() if case.startswith("pace.")}
        return ", ".join(f"{case.removeprefix('pace.')} {median(waits):.1f}" for case, waits in last.items()) + " ms"

    def report(self, results: Results, system: str) -> None:
        for case, measured in self._turns.items():
            together = sorted(wait for each in measured for wait in each.values)
            medians = [median(each.values) for each in measured]
            add = partial(results.add, "pickup", unit="ms", system=system)
            add(f"{measured[0].words}, median", values=medians, case=f"{case}.p50")
            if case.startswith("pace."):
                words = f"{measured[0].words}, 99th percentile of {len(together):,}"
                add(words, values=[percentile(99, together)], case=f"{case}.p99")


async def _waits(ground: Ground, options: Sequence[str], jobs: int, pause: float) -> tuple[list[float], list[float]]:
    """Milliseconds, ascending: of the jobs, and of a bare commit before each."""
    commits = []
    async with ground.database() as url, connected(url) as watch:
        app = Holdfast(url)
        task = app.task(stamp._definition.function)
        await watch.execute("create table bare (id int)")
        try:
            with worker(url, "-c", "20", *options):
                await task.enqueue(time.time())
                await until_archived(watch, 1)
                for _ in range(jobs):
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                    commits.append(await _commit(watch))
                    await task.enqueue(time.time())
                await until_archived(watch, jobs + 1)
            rows = await watch.fetch("select result::text::float8 from holdfast.archive order by seq")
            return sorted(row[0] * 1000 for row in rows[1:]), sorted(commits)
        finally:
            await app.close()


async def _commit(connection: asyncpg.Connection) -> float:
    began = time.perf_counter()
    await connection.execute("insert into bare values (1)")
    return (time.perf_counter() - began) * 1000
