"""Sleepers: many instances that sleep until the same moment; then each is replayed, runs a step and ends."""

from __future__ import annotations

import asyncio
import time

from ..draining import NotExactlyOnce, until, until_archived
from ..figures import Results, at_most
from ..ground import Ground, connected
from ..processes import worker
from ..turns import turns
from .app import PLACE, client
from .arithmetic import scaled
from .questions import LAST_END, PARKED, STEPS

SLEEPERS = 100_000
"""For which the target is stated."""
REDUCED = 10_000
PARKS = 2_000
"""Instances per second that are surely put to sleep before they are due."""
RECORDED = 2
"""Rows of each: the sleep and the step."""


async def run(ground: Ground, results: Results, full: bool) -> None:
    number = SLEEPERS if full else REDUCED
    values = [await once(ground, number) for _ in turns(3 if full else 2, ["sleepers"])]
    words = f"{number:,} sleepers due at once, until the last has ended"
    if full:
        results.add("workflows", words, "s", values, at_most(20), case="sleepers")
        return
    results.add("workflows", words, "s", values, case="sleepers.reduced")
    words = f"{SLEEPERS:,} sleepers due at once, scaled from {number:,}"
    results.add(
        "workflows", words, "s", [scaled(value, number, SLEEPERS) for value in values], at_most(20), case="sleepers"
    )


async def once(ground: Ground, number: int) -> float:
    """Seconds from the moment at which all are due until the last has ended, by the server's clock."""
    async with ground.database() as url, connected(url) as watch, client(url) as producer:
        clock = float(await watch.fetchval("select extract(epoch from clock_timestamp())::float8"))
        ahead = clock - time.monotonic()
        due = clock + 10 + number / PARKS
        await producer.start_many(producer.flows.sleeper, ({"due": due} for _ in range(number)))
        with worker(url, "-c", "100", app=PLACE):
            await until(watch, PARKED, number)
            if (late := time.monotonic() + ahead - due) > 0:
                raise TimeoutError(f"{number} instances were not asleep before they were due, but {late:.1f} s later")
            await watch.execute("analyze")
            await asyncio.sleep(max(due - ahead - time.monotonic(), 0))
            await until_archived(watch, number)
        recorded = await watch.fetchval(STEPS)
        if recorded != number * RECORDED:
            raise NotExactlyOnce(f"{number} sleepers have ended, and {recorded} steps are recorded")
        return float(await watch.fetchval(LAST_END)) - due
