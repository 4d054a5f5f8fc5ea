"""The producer: `python -m holdfast.demo.producer`, until SIGTERM.

A few clients place orders. Each order and its jobs are one transaction. Some transactions are rolled back at the last
moment. Some requests are sent twice, at the same time or one after the other, under the same idempotency keys, as if
the first response had been lost. Every intent is on disk before it is tried, and its outcome right after.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from holdfast import Task
from holdfast.db.database import Database
from holdfast.db.urls import resolve_pooler, resolve_url

from . import shop
from .journal import Journal, Tail

CLIENTS = 8
USUAL = 300.0
PACE = float(os.environ.get("HOLDFAST_DEMO_PACE", USUAL))
"""Orders per second."""
ROLLED_BACK = 0.1
REPEATED = 0.05
POISON_EVERY = 40
"""Orders from one with a job that always fails to the next."""
CRASH_EVERY = 15.0 * USUAL / PACE
"""Seconds from one job that crashes its process to the next."""
FIRST_CRASH = 4.0 * USUAL / PACE
ENOUGH = 600
"""Due jobs from which on the clients wait, so that the demo does not end with a long drain."""

Tasks = Sequence[Task[Any, Any]]


class RolledBack(Exception):
    """Raised on purpose at the end of a transaction, to roll it back."""


class Producer:
    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], journal: Journal, number: int) -> None:
        self._pool = pool
        self._journal = journal
        self._over = asyncio.Event()
        self._open = asyncio.Event()
        self._number = number
        """Of the last order."""
        self._next_at = time.monotonic()
        self._crash_at = time.monotonic() + FIRST_CRASH

    def stop(self) -> None:
        self._over.set()
        self._open.set()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        self._open.set()
        await self._journal.write("began")
        throttling = asyncio.create_task(self._throttle())
        try:
            await asyncio.gather(*(self._client() for _ in range(CLIENTS)))
        finally:
            throttling.cancel()
        await self._journal.write("ended")

    async def _client(self) -> None:
        while not self._over.is_set():
            await self._open.wait()
            self._next_at = max(self._next_at + 1 / PACE, time.monotonic() - 0.1)
            await asyncio.sleep(self._next_at - time.monotonic())
            if not self._over.is_set():
                await self._order()

    async def _throttle(self) -> None:
        """Let the clients wait while the workers are behind."""
        due = (
            f"select count(*) from (select from {shop.SCHEMA}.inbox"
            f" where status = 'pending' and available_at <= now() limit {ENOUGH}) as due"
        )
        while not self._over.is_set():
            if await self._pool.fetchval(due) >= ENOUGH:
                self._open.clear()
            else:
                self._open.set()
            await asyncio.sleep(0.1)

    async def _order(self) -> None:
        self._number += 1
        order, tasks = self._number, self._tasks(self._number)
        rolls_back = random.random() < ROLLED_BACK
        await self._journal.write(
            "intent", order=order, ends="rollback" if rolls_back else "commit", jobs=[task.__name__ for task in tasks]
        )
        dice = random.random()
        tries = [self._place(order, tasks, rolls_back)]
        if not rolls_back and dice < REPEATED / 2:
            tries.append(self._place(order, tasks, rolls_back))  # a second click before the first response
        outcomes = await asyncio.gather(*tries)
        for number, (what, facts) in enumerate(outcomes):
            await self._journal.write(what if number == 0 else "repeated", order=order, **facts)
        if not rolls_back and REPEATED / 2 <= dice < REPEATED:
            what, facts = await self._place(order, tasks, False)  # the response was lost: send it again
            await self._journal.write("repeated", order=order, **facts)

    def _tasks(self, order: int) -> Tasks:
        tasks: list[Task[Any, Any]] = [shop.charge, shop.send_receipt, shop.index_order]
        if order % POISON_EVERY == 1:
            tasks.append(shop.check_fraud)
        if time.monotonic() > self._crash_at:
            self._crash_at += CRASH_EVERY
            tasks.append(shop.render_invoice)
        return tasks

    async def _place(self, order: int, tasks: Tasks, rolls_back: bool) -> tuple[str, dict[str, Any]]:
        """Commit the order and its jobs together, or not at all: what Holdfast is for."""
        jobs = {}
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(
                    f"insert into {shop.SCHEMA}.orders (id, cents) values ($1, $2) on conflict (id) do nothing",
                    order, random.randint(100, 99_999),
                )  # fmt: skip
                for task in tasks:
                    name = f"{task.__name__}:{order}"
                    placed = task.on(connection, key=f"order:{order}", idempotency_key=name)
                    jobs[task.__name__] = str((await placed.enqueue(order_id=order)).id)
                if rolls_back:
                    raise RolledBack
        except RolledBack:
            return "rolled back", {}
        except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError) as error:
            return "unknown", {"why": f"{type(error).__name__}: {error}", "jobs": jobs}
        return "committed", {"jobs": jobs}


async def main() -> None:
    path = shop.FOLDER / "producer.log"
    number = max((line["order"] for line in Tail(path).read() if line["what"] == "intent"), default=0)
    journal = Journal(path)
    database = Database(resolve_url(os.environ["HOLDFAST_DATABASE_URL"]), pooler=resolve_pooler())
    async with database.pool("producer", max_size=CLIENTS + 4) as pool:
        await Producer(pool, journal, number).run()
    journal.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
