"""Measured from this process: round trips, commits and enqueues, each for a share of the time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from ..app import Holdfast
from .measurements import Latency
from .place import Place
from .tasks import NOTE

WARM_UP = 5
LEAST = 20
BULK = 1000
BULK_MOST = 400_000
"""Rows after which the bulk enqueue stops: several hundred megabytes."""


async def latency(work: Callable[[], Awaitable[object]], seconds: float) -> Latency:
    """Measure calls one after the other for `seconds`, and at least LEAST of them."""
    for _ in range(WARM_UP):
        await work()
    values: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end or len(values) < LEAST:
        await work()
        values.append((time.perf_counter() - began) * 1000)
    return Latency.of(values)


async def round_trip(place: Place, seconds: float) -> Latency:
    async with place.connection() as connection:
        return await latency(lambda: connection.execute("select 1"), seconds)


async def commit(place: Place, seconds: float) -> Latency:
    """Measure one row, inserted and committed in one round trip."""
    insert = f"insert into {place.schema}.bare values (1)"  # noqa: S608 - a checked identifier
    async with place.connection() as connection:
        return await latency(lambda: connection.execute(insert), seconds)


async def enqueue(app: Holdfast, seconds: float) -> Latency:
    task = app.tasks["single"]
    return await latency(lambda: task.enqueue(1, NOTE), seconds)


async def bulk(app: Holdfast, seconds: float) -> tuple[int, float, float]:
    """Return the number of jobs, jobs per second, and the share of a core that this process used."""
    task, jobs = app.tasks["noop"], [{"number": n, "note": NOTE} for n in range(BULK)]
    made, began, cpu = 0, time.perf_counter(), time.process_time()
    while made < BULK_MOST and (not made or time.perf_counter() - began < seconds):
        await task.enqueue_many(jobs)
        made += BULK
    elapsed = time.perf_counter() - began
    return made, made / elapsed, (time.process_time() - cpu) / elapsed
