"""The service that owns orders and stock. The row of an order is the state of its saga."""

import os
from pathlib import Path

import asyncpg
import msgspec

from examples.bus import BusConsumer, BusFile
from holdfast import Event, Holdfast, TxContext

FOLDER = Path(os.environ.get("BUS_FOLDER", "."))
DEADLINE = os.environ.get("PAYMENT_DEADLINE", "30m")
TABLES = """
create table stock (item text primary key, free int not null check (free >= 0));
create table orders (
    id int primary key, item text not null, customer text not null, cents int not null,
    status text not null check (status in ('waiting', 'paid', 'cancelled')), reason text);
"""

hf = Holdfast(os.environ.get("ORDERS_DATABASE_URL"), source="orders")
hf.relay("order.*", to=BusFile(FOLDER / "orders.jsonl"), name="bus", ordered=True)
hf.consume(BusConsumer(FOLDER / "payments.jsonl", "orders"), source="payments")


class Payment(msgspec.Struct):
    order_id: int
    reason: str | None = None


async def place(conn: asyncpg.Connection, order_id: int, item: str, customer: str, cents: int) -> None:
    """The first step: reserve the item, ask for the payment, and set a deadline for the answer. All in one commit."""
    async with conn.transaction():
        await conn.execute("update stock set free = free - 1 where item = $1", item)
        await conn.execute("insert into orders values ($1, $2, $3, $4, 'waiting')", order_id, item, customer, cents)
        data = {"order_id": order_id, "customer": customer, "cents": cents}
        await hf.on(conn).publish("order.placed", data, key=f"order:{order_id}")
        await give_up.on(conn, delay=DEADLINE).enqueue(order_id)


@hf.on_event("payment.accepted", source="payments", ordered=True, max_attempts=50)
async def accepted(ctx: TxContext, event: Event[Payment]) -> None:
    """The last step. If the order was cancelled before, payments gets `order.cancelled` and pays the money back."""
    await ctx.tx.execute("update orders set status = 'paid' where id = $1 and status = 'waiting'", event.data.order_id)


@hf.on_event("payment.refused", source="payments", ordered=True, max_attempts=50)
async def refused(ctx: TxContext, event: Event[Payment]) -> None:
    await cancel(ctx.tx, event.data.order_id, event.data.reason or "payment refused")


@hf.task
async def give_up(ctx: TxContext, order_id: int) -> None:
    await cancel(ctx.tx, order_id, "no answer from payments")


async def cancel(tx: asyncpg.Connection, order_id: int, reason: str) -> None:
    """The compensation: give the item back, and tell others. Does nothing unless the order still waits."""
    item = await tx.fetchval(
        "update orders set status = 'cancelled', reason = $2 where id = $1 and status = 'waiting' returning item",
        order_id,
        reason,
    )
    if item is not None:
        await tx.execute("update stock set free = free + 1 where item = $1", item)
        await hf.on(tx).publish("order.cancelled", {"order_id": order_id}, key=f"order:{order_id}")
