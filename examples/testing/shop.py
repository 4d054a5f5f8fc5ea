"""A small application: an order is paid, a receipt is sent, and a reminder follows if nothing has arrived."""

import os

import psycopg

from holdfast import Context, Holdfast, TxContext

hf = Holdfast()
sent: list[str] = []
"""Stands for a mail service."""


def database() -> str:
    return os.environ["HOLDFAST_DATABASE_URL"]


@hf.task(queue="mail", max_attempts=3)
async def send_receipt(ctx: Context, order_id: int) -> None:
    async with ctx.once(f"receipt:{order_id}") as first:
        if first:
            sent.append(f"receipt for {order_id}")


@hf.task
async def book(ctx: TxContext, order_id: int, cents: int) -> None:
    await ctx.tx.execute("insert into ledger values ($1, $2)", order_id, cents)
    await send_receipt.on(ctx.tx, key=f"order:{order_id}").enqueue(order_id)


@hf.task
def remind(order_id: int) -> None:
    with psycopg.connect(database()) as connection:
        paid = connection.execute("select 1 from ledger where order_id = %s", [order_id]).fetchone()
    if paid is None:
        sent.append(f"reminder for {order_id}")


@hf.cron("0 7 * * *", tz="Europe/Berlin")
@hf.task
def report() -> None:
    sent.append("report")


def order(connection: "psycopg.Connection[tuple[object, ...]]", order_id: int) -> None:
    """Remind the customer in three days, unless the order is paid by then."""
    remind.on(connection, delay="3d").enqueue(order_id)
