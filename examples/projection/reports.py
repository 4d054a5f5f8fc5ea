"""The service that shows sales: a read model of the shop's events, in a database of its own."""

import os
from pathlib import Path
from typing import Any

import asyncpg

from examples.bus import BusConsumer
from holdfast import Event, Holdfast, TxContext

BUS = Path(os.environ.get("BUS_FOLDER", ".")) / "shop.jsonl"
LIVE, NEXT = "sales", "sales_next"
MODEL = """
create schema {model};
create table {model}.orders (id int primary key, customer text not null, cents int not null, status text not null);
create table {model}.customers (customer text primary key, orders int not null, paid_cents bigint not null);
create table {model}.checkpoints (key text primary key, event text not null);
"""

hf = Holdfast(os.environ.get("REPORTS_DATABASE_URL"))
consumer = BusConsumer(BUS, "reports")
hf.consume(consumer, source="shop")


@hf.on_event("order.placed", source="shop", ordered=True, max_attempts=50)
async def placed(ctx: TxContext, event: Event[dict[str, Any]]) -> None:
    await project(ctx.tx, event)


@hf.on_event("order.paid", source="shop", ordered=True, max_attempts=50)
async def paid(ctx: TxContext, event: Event[dict[str, Any]]) -> None:
    await project(ctx.tx, event)


@hf.on_event("order.cancelled", source="shop", ordered=True, max_attempts=50)
async def cancelled(ctx: TxContext, event: Event[dict[str, Any]]) -> None:
    await project(ctx.tx, event)


async def project(tx: asyncpg.Connection, event: Event[dict[str, Any]]) -> None:
    """Change the model and move the checkpoint. Both commit with the end of the job, or none of the three."""
    assert event.key is not None
    await apply(tx, LIVE, event.type, event.data)
    await save_checkpoint(tx, LIVE, event.key, event.id)


async def apply(tx: asyncpg.Connection, model: str, type: str, data: dict[str, Any]) -> None:
    """Apply one event to the model. Twice would be wrong: it counts."""
    if type == "order.placed":
        order = data["order_id"], data["customer"], data["cents"]
        await tx.execute(f"insert into {model}.orders values ($1, $2, $3, 'placed')", *order)
        counted = f"insert into {model}.customers as c values ($1, 1, 0)"
        await tx.execute(f"{counted} on conflict (customer) do update set orders = c.orders + 1", data["customer"])
        return
    status = type.removeprefix("order.")
    before = await tx.fetchrow(f"select * from {model}.orders where id = $1", data["order_id"])
    if before is None:
        raise LookupError(f"{type} before order.placed: {data}")
    await tx.execute(f"update {model}.orders set status = $2 where id = $1", before["id"], status)
    paid = before["cents"] * ((status == "paid") - (before["status"] == "paid"))
    await tx.execute(
        f"update {model}.customers set paid_cents = paid_cents + $2 where customer = $1", before["customer"], paid
    )


async def save_checkpoint(tx: asyncpg.Connection, model: str, key: str, event: str) -> None:
    """Note the last event of this key that is in the model."""
    await tx.execute(
        f"insert into {model}.checkpoints values ($1, $2) on conflict (key) do update set event = excluded.event",
        key,
        event,
    )
