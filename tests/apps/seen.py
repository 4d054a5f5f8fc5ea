"""Handlers that log and fail, of every kind."""

import logging

from holdfast import Context, Holdfast, TxContext

hf = Holdfast()
log = logging.getLogger("shop")


@hf.task(max_attempts=1)
async def on_loop(ctx: Context) -> None:
    log.info("working", extra={"order": 7, "job_id": "mine"})
    raise RuntimeError("as it was made")


@hf.task(max_attempts=1)
async def in_transaction(ctx: TxContext) -> None:
    log.info("working", extra={"order": 7})
    raise RuntimeError("as it was made")


@hf.task(max_attempts=1)
def in_thread() -> None:
    log.info("working", extra={"order": 7})
    raise RuntimeError("as it was made")


@hf.task(max_attempts=1, process=True)
def in_process() -> None:
    log.info("working", extra={"order": 7})
    raise RuntimeError("as it was made")
