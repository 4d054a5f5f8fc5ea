"""Wake-ups: what the test costs a producer, and what it spares.

Producers commit one job each, on four connections, while flags are held as listeners hold them: none, as when every
worker is busy; asleep and awake, as under load; asleep alone, which makes every commit notify. The three take turns, so
that what else the machine does falls on all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import uuid4

import asyncpg

from holdfast.db.database import Database
from holdfast.inbox import enqueue
from holdfast.model.terms import NewJob, Terms

from .figures import Results, at_least, ratios
from .ground import Ground
from .turns import turns

CLIENTS = 4
CALLS = 100_000
TERMS = Terms(kind="noop", queue="default", priority=1, max_attempts=5, version=1)
FLAGS: dict[str, Sequence[str]] = {
    "nobody sleeps": (),
    "some sleep, one is awake": ("asleep", "awake"),
    "all sleep: every commit notifies": ("asleep",),
}


async def run(ground: Ground, results: Results, full: bool) -> None:
    async with ground.database() as url:
        clients = [await asyncpg.connect(url) for _ in range(CLIENTS)]
        holder = await asyncpg.connect(url)
        rates: dict[str, list[float]] = {name: [] for name in FLAGS}
        costs: dict[str, list[float]] = {name: [] for name in FLAGS}
        for name in turns(9 if full else 3, FLAGS):
            await holder.execute("select pg_advisory_unlock_all()")
            for state in FLAGS[name]:
                await holder.execute("select pg_advisory_lock_shared(holdfast.flag($1, 'default'))", state)
            rates[name].append(await _rate(Database(url), clients, 2.0))
            if name != "all sleep: every commit notifies":
                costs[name].append(await _cost(clients[0]))
        for client in (*clients, holder):
            await client.close()
    nobody, awake, asleep = rates.values()
    results.add("wake", "the test, nobody sleeps", "µs", costs["nobody sleeps"], case="test.nobody")
    results.add(
        "wake", "the test, some sleep, one is awake", "µs", costs["some sleep, one is awake"], case="test.awake"
    )
    for (name, values), case in zip(rates.items(), ("nobody", "awake", "every"), strict=True):
        results.add("wake", name, "commits/s", values, case=case)
    results.add("wake", "one is awake ÷ nobody sleeps", "", ratios(awake, nobody), at_least(0.9), case="awake.share")
    results.add("wake", "every commit notifies ÷ nobody sleeps", "", ratios(asleep, nobody), case="every.share")


async def _rate(database: Database, clients: Sequence[asyncpg.Connection], seconds: float) -> float:
    ends = time.monotonic() + seconds

    async def produce(client: asyncpg.Connection) -> int:
        sent = 0
        while time.monotonic() < ends:
            operation = enqueue.one(database, NewJob(TERMS, uuid4(), '{"type": "noop"}'))
            await client.fetch(operation.sql, *operation.parameters)
            sent += 1
        return sent

    return sum(await asyncio.gather(*map(produce, clients))) / seconds


async def _cost(client: asyncpg.Connection) -> float:
    """Microseconds of one call of the test, without the loop around it."""
    took = []
    for called in ("holdfast.wake('default')", "n > 0"):
        began = time.perf_counter()
        await client.fetch(f"select count({called}) from generate_series(1, {CALLS}) n")
        took.append(time.perf_counter() - began)
    return (took[0] - took[1]) / CALLS * 1e6
