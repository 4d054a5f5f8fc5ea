"""A shop that pays an order and sends a receipt: both, or neither."""

import os

import asyncpg

from holdfast import Context, Holdfast, TxContext

hf = Holdfast()

TABLES = """
create table if not exists orders (id int primary key, cents int not null, paid boolean not null default false);
create table if not exists ledger (order_id int primary key, cents int not null);
create table if not exists mail (order_id int not null, idempotency_key text not null);
"""


@hf.task(queue="mail", max_attempts=5, timeout="30s")
async def send_receipt(ctx: Context, order_id: int) -> None:
    async with ctx.once(f"receipt:{order_id}") as first:
        if first:
            await mail_service(order_id, ctx.idempotency_key)


@hf.task
async def book_payment(ctx: TxContext, order_id: int, cents: int) -> None:
    """Exactly once, because the row is in the same database and commits with the completion."""
    await ctx.tx.execute("insert into ledger values ($1, $2)", order_id, cents)


async def pay(conn: asyncpg.Connection, order_id: int, cents: int) -> None:
    """Pay in the caller's transaction. A second request finds the jobs of the first one."""
    await conn.execute(
        "insert into orders values ($1, $2, true) on conflict (id) do update set paid = true", order_id, cents
    )
    receipt = send_receipt.on(conn, key=f"order:{order_id}", idempotency_key=f"receipt-{order_id}-v1")
    await receipt.enqueue(order_id=order_id)
    booking = book_payment.on(conn, key=f"order:{order_id}", idempotency_key=f"booking-{order_id}-v1")
    await booking.enqueue(order_id=order_id, cents=cents)


def database_url() -> str:
    """Where Holdfast looks, too."""
    return os.environ.get("HOLDFAST_DATABASE_URL") or os.environ["DATABASE_URL"]


async def mail_service(order_id: int, idempotency_key: str) -> None:
    """Stands for a mail service; it records what it was asked to send."""
    conn = await asyncpg.connect(database_url())
    try:
        await conn.execute("insert into mail values ($1, $2)", order_id, idempotency_key)
    finally:
        await conn.close()
