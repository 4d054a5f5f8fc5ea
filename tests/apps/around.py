"""A lifespan and middleware around handlers of every kind. The witness file tells what ran where, in order."""

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from holdfast import CallNext, CallNextSync, Context, Holdfast, TxContext


def note(words: str) -> None:
    with Path(os.environ["AROUND_FILE"]).open("a") as file:
        file.write(words + "\n")


def refuse(where: str) -> None:
    if os.environ.get("AROUND_REFUSES") == where:
        raise OSError("the cache is away")


@asynccontextmanager
async def lifespan(app: Holdfast) -> AsyncIterator[dict[str, Any]]:
    assert app is hf
    refuse("lifespan")
    note("worker begins")
    yield {"pid": os.getpid()}
    note("worker ends")


@contextmanager
def lifespan_sync(app: Holdfast) -> Iterator[dict[str, Any]]:
    assert app is hf
    refuse("lifespan_sync")
    note("process begins")
    yield {"pid": os.getpid()}
    note("process ends")
    if os.environ.get("AROUND_LEAVES") == "raises":
        raise OSError("the cache is away")
    while os.environ.get("AROUND_LEAVES") == "hangs":
        time.sleep(1)


hf = Holdfast(lifespan=lifespan, lifespan_sync=lifespan_sync)


@hf.middleware
async def around(ctx: Context, call_next: CallNext) -> None:
    note(f"before {ctx.kind}")
    note(f"after {ctx.kind} {await call_next()}")


@hf.middleware
def around_sync(ctx: Context, call_next: CallNextSync) -> None:
    note(f"before {ctx.kind}")
    note(f"after {ctx.kind} {call_next()}")


@hf.task
async def on_loop(ctx: Context) -> bool:
    return bool(ctx.state["pid"] == os.getpid())


@hf.task
async def in_transaction(ctx: TxContext) -> bool:
    return bool(ctx.state["pid"] == os.getpid())


@hf.task
def in_thread(ctx: Context) -> bool:
    return bool(ctx.state["pid"] == os.getpid())


@hf.task(process=True)
def in_process(ctx: Context) -> bool:
    return bool(ctx.state["pid"] == os.getpid())


@hf.task(process=True)
def plain_in_process(n: int) -> int:
    return n
