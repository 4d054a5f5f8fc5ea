"""The service that owns accounts and payments."""

import os
from pathlib import Path

import msgspec

from examples.bus import BusConsumer, BusFile
from holdfast import Event, Holdfast, TxContext

FOLDER = Path(os.environ.get("BUS_FOLDER", "."))
TABLES = """
create table accounts (customer text primary key, cents int not null check (cents >= 0));
create table payments (order_id int primary key, customer text not null, cents int not null, status text not null);
"""

hf = Holdfast(os.environ.get("PAYMENTS_DATABASE_URL"), source="payments")
hf.relay("payment.*", to=BusFile(FOLDER / "payments.jsonl"), name="bus", ordered=True)
hf.consume(BusConsumer(FOLDER / "orders.jsonl", "payments"), source="orders")


class Placed(msgspec.Struct):
    order_id: int
    customer: str
    cents: int


class Cancelled(msgspec.Struct):
    order_id: int


@hf.on_event("order.placed", source="orders", ordered=True, max_attempts=50)
async def take(ctx: TxContext, event: Event[Placed]) -> None:
    """Take the money, if there is enough, and publish which of the two it was. Payment and event are one commit."""
    order = event.data
    charged = await ctx.tx.fetchval(
        "update accounts set cents = cents - $2 where customer = $1 and cents >= $2 returning customer",
        order.customer,
        order.cents,
    )
    status = "accepted" if charged is not None else "refused"
    await ctx.tx.execute(
        "insert into payments values ($1, $2, $3, $4)", order.order_id, order.customer, order.cents, status
    )
    answer = {"order_id": order.order_id, "reason": None if charged is not None else "not enough money"}
    await hf.on(ctx.tx).publish(f"payment.{status}", answer, key=event.key)


@hf.on_event("order.cancelled", source="orders", ordered=True, max_attempts=50)
async def pay_back(ctx: TxContext, event: Event[Cancelled]) -> None:
    """The compensation of `take`. It comes after `take`, because both have the key of the order."""
    paid = await ctx.tx.fetchrow(
        """
        update payments set status = 'paid back' where order_id = $1 and status = 'accepted'
        returning customer, cents
        """,
        event.data.order_id,
    )
    if paid is not None:
        await ctx.tx.execute("update accounts set cents = cents + $2 where customer = $1", *paid)
