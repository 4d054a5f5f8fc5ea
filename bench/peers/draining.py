"""Drain a queue with a peer's worker, watch it do so, and prove that the handler was called once for every job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import asyncpg

from ..ground import Ground, settle
from ..processes import cpu, family, memory
from .driver import Driver, DriverFailed, Event, Speaker

LOOK_EVERY = 0.005
SIZE_EVERY = 0.05
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Drained:
    jobs: int
    quarters: Sequence[float]
    """Jobs per second of each, by the times of completion; by calls of the handler if the peer keeps none."""
    seconds: float
    """From the first call of the handler until the database says that no job is left."""
    cpu: float | None
    """Seconds, of worker and server; None on a server that is not ours to look at."""
    memory: float
    """Megabytes of the worker's processes at most."""
    wal: int
    ready: Event
    """What the worker said of itself: version, runtime, settings."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


async def drain(
    ground: Ground, driver: Driver, url: str, jobs: int, holder: Sequence[str] = (), settings: Sequence[str] = ()
) -> Drained:
    """Run a worker until the jobs, which stand ready, have ended.

    `holder` are statements of an open transaction; `settings` are for the worker.
    """
    async with _connection(url) as watch, _connection(url) as held:
        await watch.execute("analyze")
        await settle(watch)
        for statement in holder:
            await held.fetch(statement)
        wal = await watch.fetchval("select pg_current_wal_insert_lsn()")
        async with driver.worker("worker", url, jobs, *settings) as worker:
            with _Sizes(worker.pid) as sizes:
                marks = [(await _calls(worker, 1))["at"]]
                before = _used(ground, worker)
                marks += [(await _calls(worker, jobs * quarter // 4))["at"] for quarter in (1, 2, 3, 4)]
                ended = await _completed(watch, driver, jobs)
                after = _used(ground, worker)
                written = await watch.fetchval("select pg_current_wal_insert_lsn() - $1::pg_lsn", wal)
            marks[4] = ended
            if completed := await _check(watch, driver, await worker.stop(), jobs):
                marks[1:4] = completed
            return Drained(
                jobs=jobs,
                quarters=[jobs / 4 / (later - earlier) for earlier, later in pairwise(marks)],
                seconds=ended - marks[0],
                cpu=after - before if ground.postmaster else None,
                memory=sizes.largest,
                wal=int(written),
                ready=worker.ready,
            )


async def _calls(worker: Speaker, number: int) -> Event:
    said = await worker.until("calls")
    if said["calls"] < number:
        said = await worker.until("calls")
    return said


async def _completed(watch: asyncpg.Connection, driver: Driver, jobs: int) -> float:
    """When the database had no job left: the time at which the question was asked that found none."""
    unfinished = driver.peer.sql("unfinished")
    deadline = time.monotonic() + PATIENCE
    while (asked := time.monotonic()) < deadline:
        if not await watch.fetchval(unfinished):
            return asked
        # Some answer slowly; the question must not become a load of its own.
        await asyncio.sleep(max(LOOK_EVERY, 2 * (time.monotonic() - asked)))
    raise DriverFailed(
        f"{driver.peer.name}: all {jobs} jobs were called, and {PATIENCE:.0f} s later some are not completed"
    )


async def _check(watch: asyncpg.Connection, driver: Driver, counted: Event, jobs: int) -> list[float]:
    """That each job was called and completed once; when each of the first three quarters was, on our clock."""
    ahead = await watch.fetchval("select extract(epoch from clock_timestamp())::float8") - time.monotonic()
    # For our own questions only: without it, planners take tables for empty that were so when the drain began.
    await watch.execute("analyze")
    completed, quarters = (await watch.fetch(driver.peer.sql("completed")))[0]
    left = await watch.fetchval(driver.peer.sql("unfinished"))
    if (counted["calls"], counted["distinct"], left) != (jobs, jobs, False) or completed not in (None, jobs):
        raise DriverFailed(
            f"{driver.peer.name}: {jobs} jobs were enqueued; the handler was called {counted['calls']} times for "
            f"{counted['distinct']} jobs; {completed} are kept as completed; some are left: {left}"
        )
    return [at - ahead for at in quarters or ()]


def _used(ground: Ground, worker: Speaker) -> float:
    return cpu(worker.pid) + (cpu(ground.postmaster) if ground.postmaster else 0.0)


class _Sizes:
    """Looks at the memory of a process and its children while the `with` lasts."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.largest = 0.0

    def __enter__(self) -> _Sizes:
        self._task = asyncio.create_task(self._look())
        return self

    def __exit__(self, *problem: object) -> None:
        self._task.cancel()

    async def _look(self) -> None:
        pids = family(self._pid)
        while True:
            self.largest = max(self.largest, memory(pids))
            await asyncio.sleep(SIZE_EVERY)


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, command_timeout=PATIENCE)
    try:
        yield connection
    finally:
        await connection.close()
