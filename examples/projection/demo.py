"""Sell, project, deliver again, rebuild, go on."""

import asyncio
import os

import asyncpg

from examples.projection import reports, shop
from examples.projection.rebuild import content, rebuild, swap
from examples.projection.reports import LIVE, MODEL, NEXT


async def main() -> None:
    await shop.hf.migrate()
    await reports.hf.migrate()
    shop_db = await asyncpg.connect(os.environ["SHOP_DATABASE_URL"])
    reports_db = await asyncpg.connect(os.environ["REPORTS_DATABASE_URL"])
    await shop_db.execute(shop.TABLES)
    await reports_db.execute(MODEL.format(model=LIVE))

    await sell(shop_db, range(1, 21))
    await catch_up(shop_db, reports_db)
    once = await content(reports_db, LIVE)
    print("sales      ", once["customers"])

    reports.consumer.rewind()
    await catch_up(shop_db, reports_db)
    print("redelivered", "the same" if await content(reports_db, LIVE) == once else "different")

    await reports.hf.pause("in.shop")  # events wait; nothing is lost
    await sell(shop_db, range(21, 31))
    taken = await rebuild(shop_db, reports_db)
    print("rebuilt    ", "the same" if await content(reports_db, NEXT) == once else "different", f"({taken} events)")
    await swap(reports_db)
    await reports.hf.resume("in.shop")

    await catch_up(shop_db, reports_db)
    print("sales      ", (await content(reports_db, LIVE))["customers"])
    await reports.hf.pause("in.shop")
    await rebuild(shop_db, reports_db)
    equal = await content(reports_db, NEXT) == await content(reports_db, LIVE)
    print("rebuilt    ", "the same" if equal else "different")

    for connection in (shop_db, reports_db):
        await connection.close()
    await shop.hf.close()
    await reports.hf.close()


async def sell(shop_db: asyncpg.Connection, order_ids: range) -> None:
    """Place orders of four customers. Most are paid; of these, some are cancelled later."""
    for order_id in order_ids:
        await shop.place(shop_db, order_id, "abcd"[order_id % 4], 100 * order_id)
    for order_id in order_ids:
        if order_id % 3:
            await shop.change(shop_db, order_id, "paid")
        if order_id % 5 == 0:
            await shop.change(shop_db, order_id, "cancelled")


async def catch_up(shop_db: asyncpg.Connection, reports_db: asyncpg.Connection) -> None:
    """Run a worker of each service until all events are sent, received and handled."""
    waiting = "select count(*) from holdfast.inbox where status <> 'dead_letter'"
    async with shop.hf.worker(poll=0.05), reports.hf.worker(poll=0.05), asyncio.timeout(60):
        while await shop_db.fetchval(waiting) or reports.consumer.behind or await reports_db.fetchval(waiting):
            await asyncio.sleep(0.02)
