"""Pay some orders, roll one back, send one request twice, run a worker, and count."""

import asyncio
import os
from contextlib import suppress

import asyncpg

from examples.checkout.shop import TABLES, database_url, hf, pay
from holdfast.embedded import EmbeddedPostgres


class CardRefused(Exception):
    pass


async def main() -> None:
    await hf.migrate()
    conn = await asyncpg.connect(database_url())
    await conn.execute(TABLES)

    for order_id in (9181, 9182, 9183):
        async with conn.transaction():
            await pay(conn, order_id, 1999)

    async with conn.transaction():  # the client got no response, and retries
        await pay(conn, 9182, 1999)

    with suppress(CardRefused):
        async with conn.transaction():
            await pay(conn, 9184, 1999)
            raise CardRefused

    async with hf.worker(poll=0.05):
        while await conn.fetchval("select count(*) from holdfast.inbox"):
            await asyncio.sleep(0.02)

    for table in ("orders", "mail", "ledger"):
        ids = [row[0] for row in await conn.fetch(f"select * from {table} order by 1")]
        print(f"{table:<8}{ids}")
    await conn.close()
    await hf.close()


if __name__ == "__main__":
    if os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL"):
        asyncio.run(main())
    else:
        with EmbeddedPostgres() as server:
            os.environ["HOLDFAST_DATABASE_URL"] = server.url
            asyncio.run(main())
