"""Recovery: for how long a fault keeps jobs waiting, by the signals that make it for real.

Two hosts, a lease of five seconds, chores every second, backoffs of a tenth of a second. The first attempt of a job
does not end by itself; the fault comes while it runs on the first host, and the time counts until its second attempt
has ended. What is promised is on docs/worker.md: the bounds here are those, for these settings.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass

import asyncpg

from .draining import until
from .figures import Results, at_most
from .ground import Ground, connected
from .processes import family, worker
from .turns import turns

LEASE, CHORES, BACKOFF, POLL = 5.0, 1.0, 0.1, 0.2
OPTIONS = ("-c", "20", "--lease", f"{LEASE}s", "--housekeeping", f"{CHORES}s", "--poll", f"{POLL}s")
SWEPT = LEASE + CHORES * 1.1 + 2 * BACKOFF + POLL
"""The longest for which a job is missed whose owner says nothing any more."""
ROWS = 5000
_DONE = "select count(*) from holdfast.archive"
_ENQUEUE = "select holdfast.enqueue($1, max_attempts => 20) from generate_series(1, $2)"
_LOST = """
    update holdfast.inbox
    set status = 'processing', claimed_by = 'a host that is gone', attempts = 1, lease_generation = 1,
        claimed_at = now(), lease_expires_at = clock_timestamp() + interval '1 second'
"""

Fault = Callable[[asyncpg.Connection, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    words: str
    fault: Fault
    """Done to the first host, whose supervisor's pid it is told."""
    bound: float
    jobs: int
    kind: str = ""
    """Of the jobs that the first host runs when the fault comes; none: the fault brings them."""

    def __str__(self) -> str:
        return self.words


async def _kill_process(watch: asyncpg.Connection, supervisor: int) -> None:
    os.kill(family(supervisor)[1], signal.SIGKILL)


async def _kill_host(watch: asyncpg.Connection, supervisor: int) -> None:
    os.kill(supervisor, signal.SIGKILL)


async def _stop_process(watch: asyncpg.Connection, supervisor: int) -> None:
    os.kill(family(supervisor)[1], signal.SIGSTOP)


async def _lose_rows(watch: asyncpg.Connection, supervisor: int) -> None:
    """What a host with very much in flight leaves behind; its leases run out in a second."""
    async with watch.transaction():
        await watch.execute(_ENQUEUE, "quick", ROWS)
        await watch.execute(_LOST)
    await asyncio.sleep(1)


CASES = (
    Case("process", "a worker process is killed: its 10 jobs", _kill_process, 10.0, 10, "again"),
    Case("host", "a host is killed: its 10 jobs", _kill_host, SWEPT, 10, "again"),
    Case("stopped", "a worker process is stopped inside ctx.tx: its 10 jobs", _stop_process, SWEPT, 10, "again_tx"),
    Case("rows", f"a host with {ROWS} jobs is gone, from the end of its leases", _lose_rows, SWEPT - LEASE + 10, ROWS),
)


async def run(ground: Ground, results: Results, full: bool) -> None:
    took: dict[str, list[float]] = {case.name: [] for case in CASES}
    for case in turns(5 if full else 2, CASES):
        took[case.name].append(await _once(ground, case))
    for case in CASES:
        results.add("recovery", case.words, "s", took[case.name], at_most(case.bound), case=case.name)


async def _once(ground: Ground, case: Case) -> float:
    async with ground.database() as url, connected(url) as watch:
        await watch.execute(
            "update holdfast.settings set value = to_jsonb($1::float8) where name = 'backoff_unit'", BACKOFF / 2
        )
        with ExitStack() as hosts:
            first = hosts.enter_context(worker(url, *OPTIONS, app="faults", may_end=True))
            await until(watch, "select count(*) from holdfast.workers where status = 'alive'", 1)
            if case.kind:
                await watch.execute(_ENQUEUE, case.kind, case.jobs)
                await until(watch, "select count(*) from holdfast.inbox where status = 'processing'", case.jobs)
                await asyncio.sleep(0.2)
            hosts.enter_context(worker(url, *OPTIONS, app="faults"))
            await until(watch, "select count(*) from holdfast.workers where status = 'alive'", 2)
            stopped = family(first)
            await case.fault(watch, first)
            began = time.monotonic()
            await until(watch, _DONE, case.jobs)
            elapsed = time.monotonic() - began
            for pid in stopped:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    continue
        return elapsed
