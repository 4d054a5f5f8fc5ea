"""Handlers with witnessed effects, and handlers that behave badly. A `gate` is a file for which a handler waits."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

from holdfast import Context, Fail, Holdfast, Snooze, TxContext
from tests.apps.witness import saw

hf = Holdfast()


def is_open(gate: str) -> bool:
    return Path(gate).exists()


async def sleep_until_cancelled(ctx: Context) -> None:
    saw(ctx, "started")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        saw(ctx, "cancelled")
        raise


@hf.task
async def effect(ctx: Context) -> None:
    saw(ctx, "effect")


@hf.task
async def once_effect(ctx: Context) -> None:
    async with ctx.once(f"effect:{ctx.job_id}") as first:
        saw(ctx, "effect" if first else "spared")


@hf.task
async def tx_effect(ctx: TxContext) -> None:
    await ctx.tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job_id, ctx.attempt)


@hf.task
async def failing(ctx: Context, times: int) -> None:
    saw(ctx, "effect")
    if ctx.attempt <= times:
        raise RuntimeError(f"failure {ctx.attempt} of {times}")


@hf.task
async def quick() -> None:
    pass


@hf.task
async def hold(ctx: Context, gate: str) -> None:
    saw(ctx, "started")
    while not is_open(gate):
        await asyncio.sleep(0.02)
    saw(ctx, "finished")


@hf.task
def hold_sync(ctx: Context, gate: str, fail: bool = False) -> None:
    saw(ctx, "started")
    while not is_open(gate):
        time.sleep(0.02)
    saw(ctx, "finished")
    if fail:
        raise RuntimeError("failed after the gate opened")


@hf.task
async def sleep_async(ctx: Context, seconds: float) -> None:
    saw(ctx, "started")
    await asyncio.sleep(seconds)
    saw(ctx, "finished")


@hf.task
async def endless_at_first(ctx: Context, seconds: float) -> None:
    """Its first attempt does not end by itself."""
    saw(ctx, "started")
    await asyncio.sleep(3600 if ctx.attempt == 1 else seconds)
    saw(ctx, "finished")


@hf.task
def sleep_sync(ctx: Context, seconds: float) -> None:
    saw(ctx, "started")
    time.sleep(seconds)
    saw(ctx, "finished")


@hf.task
async def block_loop(ctx: Context, seconds: float) -> None:
    """Against every rule of asyncio: nothing else in this process's loop runs meanwhile."""
    saw(ctx, "started")
    time.sleep(seconds)  # noqa: ASYNC251
    saw(ctx, "finished")


@hf.task
async def hold_gil(ctx: Context, seconds: float) -> None:
    """One call into C that keeps the interpreter's lock: not even another thread runs meanwhile."""
    saw(ctx, "started")
    began = time.perf_counter()
    sum(range(1_000_000))
    each = time.perf_counter() - began
    sum(range(int(1_000_000 * seconds / each)))
    saw(ctx, "finished")


@hf.task(timeout="500ms")
async def over_time(ctx: Context) -> None:
    await sleep_until_cancelled(ctx)


@hf.task(timeout="500ms")
def over_time_sync(ctx: Context) -> None:
    saw(ctx, "started")
    while True:
        time.sleep(0.01)
        if ctx.stopping:
            saw(ctx, "told")
        ctx.check()


@hf.task(timeout="500ms", max_attempts=2)
def deaf(ctx: Context) -> None:
    """Over its time, and nothing reaches it."""
    saw(ctx, "started")
    while True:
        time.sleep(0.05)


@hf.task(max_attempts=3)
async def poison(ctx: Context) -> None:
    saw(ctx, "started")
    os.kill(os.getpid(), signal.SIGKILL)


@hf.task(max_attempts=3)
def poison_exit(ctx: Context) -> None:
    """Ends the process from a thread."""
    saw(ctx, "started")
    os._exit(3)


@hf.task(timeout="5m")
async def cancel_me(ctx: Context) -> None:
    await sleep_until_cancelled(ctx)


@hf.task
def cancel_me_sync(ctx: Context) -> None:
    saw(ctx, "started")
    assert ctx.wait_stopping(60)
    saw(ctx, "told")
    ctx.check()


@hf.task
async def lost_async(ctx: Context) -> None:
    """Says what it is told when its lease is lost; whoever takes over has nothing left to do."""
    saw(ctx, "started")
    if ctx.generation > 1:
        return
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        try:
            ctx.check()
        except Exception as error:
            saw(ctx, type(error).__name__)
        raise


@hf.task
async def later(ctx: Context) -> Snooze | None:
    saw(ctx, "started")
    return Snooze("100ms") if ctx.generation < 3 else None


@hf.task
async def never(ctx: Context) -> Fail:
    saw(ctx, "started")
    return Fail("the order was withdrawn")


@hf.task
async def threads(ctx: Context) -> int:
    saw(ctx, f"threads={threading.active_count()}")
    return sys.getrecursionlimit()
