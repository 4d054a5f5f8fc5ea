"""Keep: the drain of jobs that leave no row, in turns with that of archived ones and with that of Graphile Worker.

Graphile Worker keeps no finished job either. All three are measured alike: from the first job that begins until the
database has no job left.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import NamedTuple

import asyncpg

from .databases import Databases
from .draining import NotExactlyOnce, check
from .figures import OURS, Results, at_least, ratios
from .ground import Ground, connected, fill, settle
from .peers import environment
from .peers.draining import LOOK_EVERY, PATIENCE
from .peers.draining import drain as drain_peer
from .peers.driver import Driver, DriverFailed
from .peers.peer import PEERS, LeftOut
from .processes import check_workers, cpu, worker
from .turns import turns

PEER = "graphile"
APPS = {"archived": "hf", "unkept": "unkept"}
"""The applications."""
_CLAIMED = "select is_called from holdfast.fence"
_LEFT = "select exists (select from holdfast.inbox)"
_COUNTS = """
    select (select last_value from holdfast.fence), (select count(*) from holdfast.inbox),
           (select count(*) from holdfast.archive)
"""


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 100_000 if full else 40_000
    rates: dict[str, list[float]] = {"archived": [], "unkept": [], PEER: []}
    wal: dict[str, list[float]] = {name: [] for name in rates}
    used: dict[str, list[float]] = {name: [] for name in rates}
    async with AsyncExitStack() as stack:
        databases = await stack.enter_async_context(Databases.on(ground))
        try:
            driver = Driver(PEERS[PEER], await environment.command(PEERS[PEER]))
            template = await stack.enter_async_context(databases.fresh())
            await driver.call("install", template)
        except (LeftOut, DriverFailed) as why:
            print(f"    {PEER} is left out: {why}", flush=True)
            del rates[PEER]
        for name in turns(10 if full else 5, rates):
            if name == PEER:
                async with databases.fresh(template) as url:
                    await driver.call("bulk", url, jobs)
                    drained = await drain_peer(ground, driver, url, jobs)
                once = _Once(drained.seconds, drained.wal, drained.cpu)
            else:
                once = await _ours(ground, name, jobs)
            rates[name].append(jobs / once.seconds)
            wal[name].append(once.wal / jobs)
            if once.cpu is not None:
                used[name].append(once.cpu / jobs * 1e6)
    words = {"archived": "archived", "unkept": "keep=None", PEER: "Graphile Worker"}
    for name, values in rates.items():
        system = PEER if name == PEER else OURS
        what = f"{jobs:,} no-op jobs, {words[name]}"
        results.add("keep", what, "jobs/s", values, system=system, case=f"rate.{name}")
        if used[name]:
            what = f"CPU, worker + server, {words[name]}"
            results.add("keep", what, "µs/job", used[name], system=system, case=f"cpu.{name}")
        results.add("keep", f"WAL, {words[name]}", "bytes/job", wal[name], system=system, case=f"wal.{name}")
    results.add("keep", "keep=None ÷ archived", "", ratios(rates["unkept"], rates["archived"]), case="beside.archived")
    if PEER in rates:
        beside = ratios(rates["unkept"], rates[PEER])
        results.add("keep", "keep=None ÷ Graphile Worker", "", beside, at_least(1.4), case=f"beside.{PEER}")


class _Once(NamedTuple):
    seconds: float
    wal: int
    cpu: float | None
    """Seconds, of worker and server: what remains comparable on a busy machine."""


async def _ours(ground: Ground, name: str, jobs: int) -> _Once:
    async with ground.database() as url, connected(url) as watch:
        await fill(watch, jobs)
        await watch.execute("analyze")
        await settle(watch)
        wal = await watch.fetchval("select pg_current_wal_insert_lsn()")
        with worker(url, "-c", "20", app=APPS[name]) as supervisor:
            began, before = await _until(watch, _CLAIMED, True), _used(ground, supervisor)
            ended, after = await _until(watch, _LEFT, False), _used(ground, supervisor)
            written = await watch.fetchval("select pg_current_wal_insert_lsn() - $1::pg_lsn", wal)
        if name == "archived":
            await check(watch, jobs)
        elif (counts := tuple((await watch.fetch(_COUNTS))[0])) != (jobs, 0, 0):
            raise NotExactlyOnce(f"{jobs} jobs were enqueued; claims, live and archived rows are {counts}")
    return _Once(ended - began, int(written), after - before if ground.postmaster else None)


def _used(ground: Ground, supervisor: int) -> float:
    return cpu(supervisor) + (cpu(ground.postmaster) if ground.postmaster else 0.0)


async def _until(watch: asyncpg.Connection, question: str, answer: bool) -> float:
    """When the question was asked that got this answer."""
    deadline = time.monotonic() + PATIENCE
    while (asked := time.monotonic()) < deadline:
        if await watch.fetchval(question) is answer:
            return asked
        check_workers()
        await asyncio.sleep(max(LOOK_EVERY, 2 * (time.monotonic() - asked)))
    raise TimeoutError(f"{question!r} is not {answer} after {PATIENCE:.0f} s")
