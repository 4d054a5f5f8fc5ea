"""The service that owns the orders. Each change publishes an event in its transaction."""

import os
from pathlib import Path

import asyncpg

from examples.bus import BusFile
from holdfast import Holdfast

TABLES = "create table orders (id int primary key, customer text not null, cents int not null, status text not null)"
BUS = Path(os.environ.get("BUS_FOLDER", ".")) / "shop.jsonl"

hf = Holdfast(os.environ.get("SHOP_DATABASE_URL"), source="shop")
hf.relay("order.*", to=BusFile(BUS), name="bus", ordered=True)


async def place(shop: asyncpg.Connection, order_id: int, customer: str, cents: int) -> None:
    async with shop.transaction():
        await shop.execute("insert into orders values ($1, $2, $3, 'placed')", order_id, customer, cents)
        data = {"order_id": order_id, "customer": customer, "cents": cents}
        await hf.on(shop).publish("order.placed", data, key=f"order:{order_id}")


async def change(shop: asyncpg.Connection, order_id: int, status: str) -> None:
    """Make an order "paid" or "cancelled". The row is locked before the event is published.

    So of two transactions that change one order, the second publishes after the first has committed. This is what
    makes the order of `seq` within a key the order of commits, and the order in which the events arrive.
    """
    async with shop.transaction():
        await shop.execute("update orders set status = $2 where id = $1", order_id, status)
        await hf.on(shop).publish(f"order.{status}", {"order_id": order_id}, key=f"order:{order_id}")
