"""The shop: what its workers run. Loaded by them as `holdfast.demo.shop:hf`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from datetime import datetime
from pathlib import Path

from holdfast import Context, Holdfast, TxContext

SCHEMA = os.environ.get("HOLDFAST_DEMO_SCHEMA", "holdfast")
FOLDER = Path(os.environ.get("HOLDFAST_DEMO_FOLDER", "."))

hf = Holdfast(schema=SCHEMA)


@hf.task(max_attempts=50)
async def charge(ctx: TxContext, order_id: int) -> None:
    """Exactly once: the row commits together with the job's completion, or not at all."""
    await record(ctx, order_id)


@hf.task(max_attempts=50)
async def index_order(ctx: TxContext, order_id: int) -> None:
    """Fails sometimes, after it has written; the write is rolled back, and the next attempt repeats it."""
    await record(ctx, order_id)
    if random.random() < 0.1:
        raise ConnectionError("the search service did not answer")


@hf.task(max_attempts=50)
async def send_receipt(ctx: Context, order_id: int) -> None:
    """An effect outside the database: at least once, with a marker, and a key by which the other side deduplicates."""
    mail_service.note("begun", ctx, order_id)
    async with ctx.once(f"receipt:{order_id}") as first:
        if first:
            await asyncio.sleep(random.uniform(0.01, 0.04))  # the network
            mail_service.note("posted", ctx, order_id)
    mail_service.note("done", ctx, order_id)


@hf.task(max_attempts=3)
async def check_fraud(ctx: TxContext, order_id: int) -> None:
    """Never succeeds. After three attempts, it is a dead letter, and nothing that it wrote remains."""
    await record(ctx, order_id)
    raise ValueError("this order cannot be understood")


@hf.task(max_attempts=2)
async def render_invoice(ctx: TxContext, order_id: int) -> None:
    """Crashes its process. The second attempt, its last, runs in isolation."""
    await record(ctx, order_id)
    os.kill(os.getpid(), signal.SIGKILL)


@hf.every("2s", missed="all")
@hf.task(max_attempts=50)
async def count_stock(ctx: TxContext) -> None:
    """Fired by the clock. Each slot has one job, whichever worker fires it, and so one row."""
    if slot := ctx.headers.get("slot"):  # none if somebody triggered it by hand
        await record(ctx, int(datetime.fromisoformat(slot).timestamp()))


async def record(ctx: TxContext, order_id: int) -> None:
    """Write the effect. There is no unique index: an effect that was committed twice would be two rows."""
    await ctx.tx.execute(
        f"insert into {SCHEMA}.effects (order_id, kind, job_id, attempt) values ($1, $2, $3, $4)",
        order_id, ctx.kind, ctx.job_id, ctx.attempt,
    )  # fmt: skip


class MailService:
    """Stands for a service elsewhere: an append-only file of requests. Requests with the same key are one letter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def note(self, what: str, ctx: Context, order_id: int) -> None:
        """Append one line in one write, so that a killed process leaves it complete or not at all."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        line = {
            "what": what, "order": order_id, "kind": ctx.kind, "key": ctx.idempotency_key, "job": str(ctx.job_id),
            "fence": ctx.fence, "generation": ctx.generation, "pid": os.getpid(), "t": round(time.time(), 3),
        }  # fmt: skip
        os.write(self._fd, json.dumps(line).encode() + b"\n")


mail_service = MailService(FOLDER / "effects.log")
