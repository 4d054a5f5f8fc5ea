"""Pick-up: from the call of enqueue to the start of the handler, one job at a time on an idle worker.

With wake-ups the path is: commit of the job, notification, commit of the claim, so it is held against bare commits of
the same run. Without them, polling alone decides it: between 5 ms and the longest pause (`--poll`). The pauses between
jobs are long enough for the worker to fall asleep, but for one row, whose jobs come while it is falling asleep.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

import asyncpg

from holdfast import Holdfast

from .app import stamp
from .draining import until_archived
from .figures import Results, Target, at_most
from .ground import Ground
from .processes import worker

CASES: tuple[tuple[str, Sequence[str], float, int], ...] = (
    ("wake-ups, asleep", (), 0.4, 3),
    ("wake-ups, a fleet of eight asleep", ("--processes", "8"), 0.4, 3),
    ("wake-ups, falling asleep", (), 0.1, 2),
    ("--no-notify --poll 20ms", ("--no-notify", "--poll", "20ms"), 0.1, 2),
    ("--no-notify --poll 1s", ("--no-notify",), 1.0, 1),
)
"""What, the worker's options, the mean pause between jobs, and a weight of how many there are."""


async def run(ground: Ground, results: Results, full: bool) -> None:
    for name, options, pause, weight in CASES:
        waits, commits = await _waits(ground, options, weight * (100 if full else 30), pause)
        if weight == 3:
            _add(results, f"a bare commit, beside {name}", commits)
        _add(results, name, waits, at_most(10) if weight == 3 else None)


def _add(results: Results, name: str, waits: list[float], target: Target | None = None) -> None:
    for words, share in (("median", 50), ("99th percentile", 99)):
        results.add(
            "pickup", f"{name}: {words} of {len(waits)}", "ms", [waits[len(waits) * share // 100]],
            target if share == 50 else None,
        )  # fmt: skip


async def _waits(ground: Ground, options: Sequence[str], jobs: int, pause: float) -> tuple[list[float], list[float]]:
    """Milliseconds, ascending: of the jobs, and of a bare commit before each."""
    commits = []
    async with ground.database() as url:
        app = Holdfast(url)
        task = app.task(stamp.definition.function)
        watch = await asyncpg.connect(url)
        await watch.execute("create table bare (id int)")
        try:
            with worker(url, "-c", "20", *options):
                await task.enqueue(time.time())
                await until_archived(watch, 1)
                for _ in range(jobs):
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                    began = time.perf_counter()
                    await watch.execute("insert into bare values (1)")
                    commits.append((time.perf_counter() - began) * 1000)
                    await task.enqueue(time.time())
                await until_archived(watch, jobs + 1)
            rows = await watch.fetch("select result::text::float8 from holdfast.archive order by seq")
            return sorted(row[0] * 1000 for row in rows[1:]), sorted(commits)
        finally:
            await watch.close()
            await app.close()
