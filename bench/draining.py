"""Drain a filled queue with a real worker, watch it do so, and prove that every job ran once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import asyncpg

from .ground import Ground
from .processes import check_workers, cpu, family, memory, worker

LOOK_EVERY = 0.05
PATIENCE = 600.0

_TIMES = """
    select n, extract(epoch from at)::float8
    from (
        select 0 as n, min(claimed_at) as at from holdfast.archive
        union all
        select row_number() over (order by finished_at), finished_at from holdfast.archive
    ) as times
    where n % $1 = 0
    order by n
"""

_COUNTS = """
    select count(*)::int, count(distinct id)::int,
           count(*) filter (where status = 'completed' and attempts = 1 and (lease_generation = 1 or $1))::int,
           (select count(*) from holdfast.inbox)::int
    from holdfast.archive
"""


class NotExactlyOnce(Exception):
    """The count after a drain is not what was enqueued."""


@dataclass(frozen=True, slots=True)
class Drained:
    jobs: int
    seconds: float
    """From the first claim to the last completion, by the server's clock."""
    quarters: Sequence[float]
    """Jobs per second of each."""
    memory: Sequence[float]
    """Megabytes of supervisor and workers together, largest of each quarter."""
    worker_memory: Sequence[float]
    """The same of the largest worker process alone."""
    worker_cpu: float
    server_cpu: float | None
    """None on a server that is not ours to look at."""
    cpu_quarters: Sequence[float]
    """Seconds of CPU, worker and server, in each: what remains comparable on a busy machine."""
    wal: int

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


async def drain(
    ground: Ground, url: str, watch: asyncpg.Connection, jobs: int, *options: str, app: str = "hf",
    handed_back: bool = False,
) -> Drained:  # fmt: skip
    """Start `holdfast worker` and wait until `jobs` jobs, which stand ready, have ended."""
    wal = await watch.fetchval("select pg_current_wal_insert_lsn()")
    with worker(url, *options, app=app) as supervisor:
        await _until(lambda: _claimed(watch), 1)
        began = _Usage.now(ground, supervisor)
        sizes, usages = await _watch(ground, watch, supervisor, jobs)
        await until_archived(watch, jobs)
        ended = _Usage.now(ground, supervisor)
        written = await watch.fetchval("select pg_current_wal_insert_lsn() - $1::pg_lsn", wal)
    await check(watch, jobs, handed_back)
    marks = [row[1] for row in await watch.fetch(_TIMES, jobs // 4)]
    return Drained(
        jobs=jobs,
        seconds=marks[4] - marks[0],
        quarters=[jobs / 4 / (later - earlier) for earlier, later in pairwise(marks)],
        memory=[size.together for size in sizes],
        worker_memory=[size.largest for size in sizes],
        worker_cpu=ended.worker - began.worker,
        server_cpu=ended.server - began.server if ground.postmaster else None,
        cpu_quarters=[later.both - earlier.both for earlier, later in pairwise([began, *usages, ended])],
        wal=int(written),
    )


@dataclass(frozen=True, slots=True)
class _Size:
    """Megabytes of memory: of supervisor and workers together, and of the largest worker."""

    together: float
    largest: float

    def or_more(self, together: float, largest: float) -> _Size:
        return _Size(max(self.together, together), max(self.largest, largest))


@dataclass(frozen=True, slots=True)
class _Usage:
    """Seconds of CPU so far."""

    worker: float
    server: float

    @classmethod
    def now(cls, ground: Ground, supervisor: int) -> _Usage:
        return cls(cpu(supervisor), cpu(ground.postmaster) if ground.postmaster else 0.0)

    @property
    def both(self) -> float:
        return self.worker + self.server


async def first(url: str, watch: asyncpg.Connection, jobs: int, *options: str) -> float:
    """Jobs per second of the first so many of a backlog that stays, from the first claim on."""
    with worker(url, *options):
        await until_archived(watch, jobs)
    rows = await watch.fetch(_TIMES, jobs)
    return jobs / float(rows[1][1] - rows[0][1])


async def until_archived(watch: asyncpg.Connection, jobs: int) -> None:
    """Wait until so many jobs have ended."""
    await until(watch, "select count(*) from holdfast.archive", jobs)


async def until(watch: asyncpg.Connection, question: str, number: int) -> None:
    """Wait until the answer has reached the number."""

    async def ask() -> int:
        return int(await watch.fetchval(question))

    await _until(ask, number)


async def _until(ask: Callable[[], Awaitable[int]], number: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (reached := await ask()) < number:
        check_workers()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{reached} of {number} after {PATIENCE:.0f} s")
        await asyncio.sleep(LOOK_EVERY)


async def _claimed(watch: asyncpg.Connection) -> int:
    """How many claims there were. The sequence tells it at no cost, however many rows there are."""
    return int(await watch.fetchval("select case when is_called then last_value else 0 end from holdfast.fence"))


async def _watch(
    ground: Ground, watch: asyncpg.Connection, supervisor: int, jobs: int
) -> tuple[list[_Size], list[_Usage]]:
    """Until all is claimed: the largest memory in each quarter, and the CPU used by the end of the first three."""
    sizes = [_Size(0.0, 0.0)] * 4
    usages: list[_Usage] = []
    pids = family(supervisor)

    async def look() -> int:
        claimed = await _claimed(watch)
        quarter = min(claimed * 4 // jobs, 3)
        while len(usages) < quarter:
            usages.append(_Usage.now(ground, supervisor))
        sizes[quarter] = sizes[quarter].or_more(memory(pids), max(memory([pid]) for pid in pids[1:]))
        return claimed

    await _until(look, jobs)
    return sizes, usages


async def check(watch: asyncpg.Connection, jobs: int, handed_back: bool = False) -> None:
    """Each job once, on its first attempt, and nothing left. `handed_back`: unstarted rows may go to and fro."""
    rows, ids, clean, left = (await watch.fetch(_COUNTS, handed_back))[0]
    if (rows, ids, clean, left) != (jobs, jobs, jobs, 0):
        raise NotExactlyOnce(
            f"{jobs} jobs were enqueued; the archive has {rows} rows of {ids} jobs, {clean} completed at the first "
            f"attempt; {left} are left"
        )
