"""Handlers that hold locks of the database, and wait for a `gate`, a file, in the middle."""

import asyncio

from holdfast import Context, Holdfast, TxContext
from tests.apps.effects import is_open
from tests.apps.witness import saw

hf = Holdfast()


async def wait_for(gate: str) -> None:
    while not is_open(gate):
        await asyncio.sleep(0.02)


@hf.task(timeout="20s")
async def sell(ctx: TxContext, gate: str = "") -> None:
    """Locks the one row of `stock` and, in the first attempt, waits for the gate, idle in its transaction."""
    saw(ctx, "started")
    await ctx.tx.execute("update stock set left_over = left_over - 1")
    saw(ctx, "locked")
    if gate and ctx.attempt == 1:
        await wait_for(gate)
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job_id, ctx.attempt)
    saw(ctx, "finished")


@hf.task(timeout="1500ms")
async def short(ctx: TxContext, gate: str) -> None:
    await ctx.tx.execute("update stock set left_over = left_over - 1")
    saw(ctx, "locked")
    await wait_for(gate)


@hf.task
async def doze(ctx: TxContext) -> None:
    """Locks the same row and, in the first attempt, keeps the server busy."""
    await ctx.tx.execute("update stock set left_over = left_over - 1")
    saw(ctx, "locked")
    if ctx.attempt == 1:
        await ctx.tx.execute("select pg_sleep(60)")


@hf.task
async def mail(ctx: Context) -> None:
    async with ctx.once("mail") as first:
        saw(ctx, "effect" if first else "spared")


@hf.task(max_attempts=1)
async def only_try(ctx: TxContext) -> None:
    saw(ctx, "started")
    await asyncio.sleep(0.02)
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job_id, ctx.attempt)
