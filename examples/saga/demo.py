"""Both services as they run in production: a `holdfast worker` each. Their worker processes are killed now and then."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg

from examples.saga import orders, payments

ORDERS, ITEMS = 30, 100
ACCOUNTS = {"Ada": 20_000, "Bob": 20_000, "Eve": 0}
FLAGS = ["--lease", "5s", "--poll", "100ms", "--drain", "2s", "--log-level", "ERROR"]


async def main() -> None:
    orders_db = await asyncpg.connect(os.environ["ORDERS_DATABASE_URL"])
    payments_db = await asyncpg.connect(os.environ["PAYMENTS_DATABASE_URL"])
    await prepare(orders_db, payments_db)
    with worker("examples.saga.orders:hf") as first, worker("examples.saga.payments:hf") as second:
        for number in range(1, ORDERS + 1):
            await orders.place(orders_db, number, "lamp", list(ACCOUNTS)[number % 3], 100 * number)
            if number == ORDERS // 2:
                await kill_a_process_of(first)
                await kill_a_process_of(second)
                print(f"{number} orders; a worker process of each service was killed")
        await settled(orders_db, payments_db)
    for line in await report(orders_db, payments_db):
        print(line)
    await orders_db.close()
    await payments_db.close()
    await orders.hf.close()


async def prepare(orders_db: asyncpg.Connection, payments_db: asyncpg.Connection) -> None:
    await orders.hf.migrate()
    await payments.hf.migrate()
    await payments.hf.close()
    await orders_db.execute(orders.TABLES)
    await orders_db.execute("insert into stock values ('lamp', $1)", ITEMS)
    await payments_db.execute(payments.TABLES)
    await payments_db.executemany("insert into accounts values ($1, $2)", ACCOUNTS.items())


async def settled(orders_db: asyncpg.Connection, payments_db: asyncpg.Connection, seconds: float = 100) -> None:
    """Wait until every saga has ended, in both services."""
    waiting = "select count(*) from holdfast.inbox where kind <> 'give_up' and status <> 'dead_letter'"
    ended = "select count(*) from payments where status = any ($1)"
    async with asyncio.timeout(seconds):
        while True:
            counts = await numbers(orders_db)
            refused = await payments_db.fetchval(ended, ["refused", "paid back"])
            quiet = not await orders_db.fetchval(waiting) and not await payments_db.fetchval(waiting)
            if quiet and "waiting" not in counts and refused == counts.get("cancelled", 0):
                return
            await asyncio.sleep(0.1)


async def numbers(orders_db: asyncpg.Connection) -> dict[str, int]:
    """How many orders there are, by status."""
    rows = await orders_db.fetch("select status, count(*) as orders from orders group by 1")
    return {row["status"]: row["orders"] for row in rows}


async def report(orders_db: asyncpg.Connection, payments_db: asyncpg.Connection) -> list[str]:
    """Count orders, items and money. Nothing is missing, and nothing is there twice."""
    counts = await numbers(orders_db)
    free = await orders_db.fetchval("select free from stock")
    money = await payments_db.fetchval("select sum(cents) from accounts")
    taken = await payments_db.fetchval("select coalesce(sum(cents), 0) from payments where status = 'accepted'")
    sold = await orders_db.fetchval("select coalesce(sum(cents), 0) from orders where status = 'paid'")
    return [
        f"orders  {counts.get('paid', 0)} paid + {counts.get('cancelled', 0)} cancelled = {sum(counts.values())}",
        f"items   {free} free + {counts.get('paid', 0)} sold = {free + counts.get('paid', 0)}",
        f"money   {money} in accounts + {taken} taken = {money + taken}; orders of {sold} are paid",
    ]


@contextmanager
def worker(app: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "holdfast.cli", "worker", app, *FLAGS]
    process = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


async def kill_a_process_of(process: "subprocess.Popen[bytes]") -> None:
    """Kill a worker process as soon as it has work; its supervisor starts another one."""
    while not (pids := children_of(process)):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    with suppress(ProcessLookupError):
        os.kill(pids[0], signal.SIGKILL)


def children_of(process: "subprocess.Popen[bytes]") -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
