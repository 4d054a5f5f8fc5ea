"""Run the workflows with a worker, and print what became of them."""

import asyncio
import os

import asyncpg

from examples.workflows import approval, checkout, fan_out, polling
from holdfast.embedded import EmbeddedPostgres


async def main() -> None:
    await checkout.hf.migrate()
    conn = await asyncpg.connect(os.environ["HOLDFAST_DATABASE_URL"])
    await conn.execute(checkout.TABLES)
    await conn.execute("insert into stock values ('lamp', 10)")
    await orders(conn)
    await conn.close()
    await purchases()
    await pages()
    await questions()


async def orders(conn: asyncpg.Connection) -> None:
    hf = checkout.hf
    async with hf.worker():
        async with conn.transaction():  # the order and its workflow: both, or neither
            start = checkout.checkout.on(conn, id="checkout:9182").start
            shipped = await start(order_id=9182, item="lamp", cents=4900)
        withdrawn = await checkout.checkout.options(id="checkout:9183").start(order_id=9183, item="lamp", cents=4900)
        await waits(conn, 2)
        await hf.signal("checkout:9182", "shipped", {"carrier": "DHL"})
        await hf.cancel(withdrawn.job_id)
        print(f"checkout:9182  {await shipped.result(timeout='10s')}")
        while await conn.fetchval("select count(*) from holdfast.inbox"):
            await asyncio.sleep(0.05)
    free, paid = await conn.fetchval("select free from stock"), await conn.fetchval("select count(*) from payments")
    print(f"checkout:9183  cancelled and undone: {free} of 10 lamps are free, {paid} order is paid")
    await hf.close()


async def purchases() -> None:
    async with approval.hf.worker():
        instance = await approval.purchase.options(id="purchase:1").start("a desk", ["Ada", "Bob"])
        for _ in range(2):  # two clicks
            await approval.answer("purchase:1", True, "Ada")
        print(f"purchase:1     {await instance.result(timeout='10s')}")
    await approval.hf.close()


async def pages() -> None:
    async with fan_out.hf.worker(concurrency=100):
        instance = await fan_out.album.options(id="album:1").start(pages=1000)
        print(f"album:1        {await instance.result(timeout='60s')}")
    await fan_out.hf.close()


async def questions() -> None:
    polling.paid.add(7)
    async with polling.hf.worker():
        instance = await polling.invoice.options(id="invoice:7").start(7)
        print(f"invoice:7      {await instance.result(timeout='10s')}")
    await polling.hf.close()


async def waits(conn: asyncpg.Connection, count: int) -> None:
    """Return when so many instances wait."""
    while await conn.fetchval("select count(*) from holdfast.workflows where state = 'waiting'") < count:
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_DATABASE_URL"):
        asyncio.run(main())
    else:
        with EmbeddedPostgres() as server:
            os.environ["HOLDFAST_DATABASE_URL"] = server.url
            asyncio.run(main())
