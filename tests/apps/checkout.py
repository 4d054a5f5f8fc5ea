"""The workflow `checkout`, and others: their steps say what they did, and whether they should not have been called."""

import asyncio
import os
import time
from pathlib import Path

import psycopg

from holdfast import Context, Flow, Holdfast, TxContext
from tests.apps.witness import VARIABLE, read, saw

hf = Holdfast()

RECORDED = """
select true from holdfast.steps s where s.job_id = %(job)s and s.name = %(step)s and s.status = 'done'
union all
select true from holdfast.archive a where a.id = %(job)s
"""
TOLD = "again:"
"""Said of a step that is called although its record is committed."""


def called(ctx: Context) -> None:
    """Say that this step is called; and that it is recorded already, if it is."""
    step = ctx.step  # type: ignore[attr-defined]
    try:
        with psycopg.connect(os.environ["HOLDFAST_DATABASE_URL"], connect_timeout=5) as connection:
            recorded = connection.execute(RECORDED, {"job": ctx.job_id, "step": step}).fetchone()
    except psycopg.OperationalError:  # the server is down: nothing can be said
        recorded = None
    saw(ctx, f"{TOLD}{step}" if recorded else step)


def held(ctx: Context, hold: str, gate: str) -> bool:
    """Must this call wait? The first that comes there does."""
    return hold == ctx.step and not Path(gate).exists()  # type: ignore[attr-defined]


async def wait_for(ctx: Context, hold: str, gate: str) -> None:
    if held(ctx, hold, gate):
        saw(ctx, "inside")
    while held(ctx, hold, gate):
        await asyncio.sleep(0.02)


async def reserve(ctx: Context, order: int, hold: str, gate: str) -> str:
    called(ctx)
    await wait_for(ctx, hold, gate)
    return f"reservation of {order}"


async def release(ctx: Context, order: int, hold: str, gate: str) -> None:
    called(ctx)
    await wait_for(ctx, hold, gate)


async def charge(ctx: TxContext, order: int, hold: str, gate: str) -> int:
    called(ctx)
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, 1)", ctx.job_id)
    await wait_for(ctx, hold, gate)
    return order * 10


async def refund(ctx: TxContext, order: int, hold: str, gate: str) -> None:
    called(ctx)
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, -1)", ctx.job_id)
    await wait_for(ctx, hold, gate)


def receipt(ctx: Context, order: int, hold: str, gate: str) -> str:
    called(ctx)
    if held(ctx, hold, gate):
        saw(ctx, "inside")
    while held(ctx, hold, gate):
        time.sleep(0.02)
    return ctx.idempotency_key


async def notify(ctx: Context, order: int, hold: str, gate: str) -> None:
    called(ctx)
    await wait_for(ctx, hold, gate)


@hf.workflow(version=1)
async def checkout(flow: Flow, order: int, hold: str = "", gate: str = "", patience: str = "1h") -> list[str]:
    reserved = await flow.step("reserve", reserve, order, hold, gate, undo=release)
    charged = await flow.step("charge", charge, order, hold, gate, undo=refund)
    sent = await flow.step("receipt", receipt, order, hold, gate)
    shipped = await flow.wait("shipped", dict, timeout=patience)
    await flow.step("notify", notify, order, hold, gate)
    return [reserved, str(charged), sent, shipped["parcel"] if shipped else "late"]


# Children


@hf.task(max_attempts=1000)
async def double(ctx: TxContext, number: int) -> int:
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job_id, number)
    return number * 2


@hf.workflow(version=1, max_attempts=1000)
async def triple(flow: Flow, number: int) -> int:
    doubled = await flow.child("double", double, number)
    await flow.sleep("a while", "50ms")
    return int(await flow.step("add", add, doubled, number))


async def add(ctx: Context, one: int, other: int) -> int:
    called(ctx)
    return one + other


async def total(ctx: TxContext, numbers: list[int]) -> int:
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, -1)", ctx.job_id)
    return sum(numbers)


@hf.workflow(version=1, max_attempts=1000)
async def all_of_them(flow: Flow, count: int) -> int:
    triples = await flow.map("triples", triple, [{"number": number} for number in range(count)])
    return await flow.step("total", total, triples)


# Over its time


async def first(ctx: Context) -> None:
    called(ctx)


def deaf(ctx: Context) -> str:
    """In its first run, it hears that it is over its time, and goes on."""
    called(ctx)
    told = False
    while ctx.generation == 1:
        if ctx.stopping and not told:
            saw(ctx, "told")
            told = True
        time.sleep(0.02)
    return "heard"


def beside(ctx: Context) -> None:
    called(ctx)


@hf.workflow(version=1)
async def overdue(flow: Flow) -> str:
    await flow.step("first", first)
    heard, _ = await flow.gather(flow.step("deaf", deaf, timeout="500ms"), flow.step("beside", beside))
    return str(heard)


# When the drain is over


def slow(ctx: Context) -> None:
    """In its first call, nothing reaches it. The next one says whether the process of the first is still there."""
    before = [seen.pid for seen in read(Path(os.environ[VARIABLE])) if (seen.job, seen.what) == (ctx.job_id, "slow")]
    if any(Path(f"/proc/{pid}").exists() for pid in before):
        saw(ctx, "beside")
    called(ctx)
    if not before:
        time.sleep(3600)


async def rest(ctx: Context) -> None:
    """In its first run, it is not quick when it is cancelled."""
    called(ctx)
    if ctx.generation == 1:
        try:
            await asyncio.sleep(3600)
        finally:
            saw(ctx, "cancelled")
            await asyncio.sleep(3600)


@hf.workflow(version=1)
async def stubborn(flow: Flow) -> None:
    await flow.gather(flow.step("slow", slow), flow.step("rest", rest))


# Cancelled with its child


async def write(ctx: TxContext) -> None:
    called(ctx)
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, 1)", ctx.job_id)


async def unwrite(ctx: TxContext) -> None:
    called(ctx)
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, -1)", ctx.job_id)


@hf.workflow(version=1, queue="inner")
async def inner(flow: Flow) -> None:
    await flow.step("B", write, undo=unwrite)
    await flow.wait("go")


@hf.workflow(version=1)
async def outer(flow: Flow) -> None:
    await flow.step("A", write, undo=unwrite)
    await flow.child("inner", inner)
