"""Make the read model again, from the log of events in the shop's database."""

import asyncio
import json

import asyncpg

from examples.projection.reports import LIVE, MODEL, NEXT, apply, save_checkpoint

RUNNING = "select exists (select from holdfast.inbox where queue = 'in.shop' and status = 'processing')"
LOG = "select id::text, type, key, data from holdfast.events where source = 'shop' and type like 'order.%' order by seq"


async def rebuild(shop: asyncpg.Connection, reports: asyncpg.Connection) -> int:
    """Fold the log into a new model, each key up to the checkpoint of the live one. Returns how many events it took.

    Pause the queue of the live model first, so that its checkpoints stand still. Everything up to them is committed in
    the shop, because it was delivered; the snapshot below sees it.

    `seq` is drawn when an event is written. It is not the order of commits: an event with a low `seq` may commit after
    one with a higher `seq` was delivered. So the log is not read "up to a seq": each key has its own checkpoint. Within
    a key, `seq` is the order of commits, because the shop locks the order before it publishes.
    """
    while await reports.fetchval(RUNNING):  # what had started before the pause
        await asyncio.sleep(0.05)
    last = {row["key"]: row["event"] for row in await reports.fetch(f"select * from {LIVE}.checkpoints")}
    taken = 0
    async with reports.transaction(), shop.transaction(isolation="repeatable_read", readonly=True):
        await reports.execute(f"drop schema if exists {NEXT} cascade; {MODEL.format(model=NEXT)}")
        async for id, type, key, data in shop.cursor(LOG):
            if key not in last:
                continue  # the live model is not there yet
            await apply(reports, NEXT, type, json.loads(data))
            await save_checkpoint(reports, NEXT, key, id)
            taken += 1
            if last[key] == id:
                del last[key]
        if last:
            raise LookupError(
                f"the log does not reach back to all events: {len(last)} keys end before their checkpoint"
            )
    return taken


async def swap(reports: asyncpg.Connection) -> None:
    """Let the new model take the place of the live one."""
    async with reports.transaction():
        await reports.execute(f"drop schema {LIVE} cascade; alter schema {NEXT} rename to {LIVE}")


async def content(reports: asyncpg.Connection, model: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the model."""
    tables = ("orders", "customers", "checkpoints")
    return {
        table: [tuple(row) for row in await reports.fetch(f"select * from {model}.{table} order by 1")]
        for table in tables
    }
