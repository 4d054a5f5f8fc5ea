"""A lone step: steps of one instance, one after the other, on a worker that has nothing else to do.

A step begins when the one before it is durable, so the time from one to the next is what one step costs. It is held
against bare commits, one after the other, in the same turn.
"""

from __future__ import annotations

import json
from statistics import median
from time import perf_counter

import asyncpg

from ..draining import until_archived
from ..figures import Results, at_most, ratios
from ..ground import Ground, connected
from ..processes import worker
from ..turns import turns
from .app import PLACE, client
from .arithmetic import between
from .questions import RESULTS

STEPS = 100
REPEATS = {True: 10, False: 5}


async def run(ground: Ground, results: Results, full: bool) -> None:
    commits, steps = [], []
    async with ground.database() as url, connected(url) as watch, client(url) as producer:
        await watch.execute("create table bare (id int)")
        with worker(url, "-c", "20", app=PLACE):
            # The first instance does not count: connections, prepared statements, caches.
            for number, _ in enumerate(turns(REPEATS[full] + 1, ["a lone step"])):
                commits.append(median([await _commit(watch) for _ in range(STEPS)]))
                await producer.start(producer.flows.marks, f"marks {number}", steps=STEPS + 1)
                await until_archived(watch, number + 1)
        for (result,) in await watch.fetch(RESULTS):
            steps.append(median(between(json.loads(result))))
    of_steps, of_commits = steps[1:], commits[1:]
    results.add("workflows", f"a lone step, median of {STEPS}", "ms", of_steps, case="lone")
    results.add("workflows", f"a commit, median of {STEPS}", "ms", of_commits, system="bare", case="lone")
    share = ratios(of_steps, of_commits)
    results.add("workflows", "a lone step ÷ a bare commit", "", share, at_most(2.5), case="lone.share")


async def _commit(connection: asyncpg.Connection) -> float:
    began = perf_counter()
    await connection.execute("insert into bare values (1)")
    return (perf_counter() - began) * 1000
