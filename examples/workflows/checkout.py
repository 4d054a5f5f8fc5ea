"""An order: reserve, charge, send a receipt, wait for the parcel. If it is cancelled, what was done is undone."""

import msgspec

from holdfast import Context, Flow, Holdfast, TxContext

hf = Holdfast()

TABLES = """
create table stock (item text primary key, free int not null check (free >= 0));
create table payments (order_id int primary key, cents int not null);
"""


class Parcel(msgspec.Struct):
    carrier: str


@hf.workflow(version=1)
async def checkout(flow: Flow, order_id: int, item: str, cents: int) -> str:
    await flow.step("reserve", reserve, item, undo=release)
    await flow.step("charge", charge, order_id, cents, undo=refund)
    await flow.step("receipt", send_receipt, order_id)
    parcel = await flow.wait("shipped", Parcel, timeout="3d")
    return f"shipped with {parcel.carrier}" if parcel else "not shipped in time"


async def reserve(ctx: TxContext, item: str) -> None:
    """Exactly once: what a step writes through `ctx.tx` commits together with its record."""
    await ctx.tx.execute("update stock set free = free - 1 where item = $1", item)


async def release(ctx: TxContext, item: str) -> None:
    await ctx.tx.execute("update stock set free = free + 1 where item = $1", item)


async def charge(ctx: TxContext, order_id: int, cents: int) -> None:
    await ctx.tx.execute("insert into payments values ($1, $2)", order_id, cents)


async def refund(ctx: TxContext, order_id: int, cents: int) -> None:
    await ctx.tx.execute("delete from payments where order_id = $1", order_id)


async def send_receipt(ctx: Context, order_id: int) -> None:
    """Another service: if the worker dies before the step is recorded, it is called again, with the same key."""
    mail[ctx.idempotency_key] = f"receipt for order {order_id}"


mail: dict[str, str] = {}
"""Stands for a mail service that drops a second request with the same key."""
