"""The applications whose jobs the benchmarks run; each axis starts its workers with the one that it needs."""

import asyncio
import functools
import os
import time
from collections.abc import Awaitable, Callable

import holdfast
from holdfast import Context, Holdfast, TxContext

from .turn import source

source.check()

hf = Holdfast()
handlers = Holdfast()
"""Handlers that take so many milliseconds, of each kind."""
faults = Holdfast()
"""Handlers whose first attempt does not end by itself."""
unkept = Holdfast()
"""Jobs that leave no row."""
busy = Holdfast()
"""Urgent jobs beside a queue that is always full."""

NOTE = "x" * 60
"""Makes a payload of about 100 bytes."""
MILLISECONDS = (0, 1, 50)
STARTS = "BENCH_STARTS"
"""Names the file in which `noting` and `holding` note when they started."""
HELD = 0.05
"""Seconds, as for the peers."""

Start = Callable[[int, str, float], Awaitable[None]]


async def nothing(number: int, note: str) -> None:
    """Nothing, so that everything measured is ours."""


noop = hf.task(name="noop")(nothing)
if "keep" in getattr(getattr(holdfast, "TaskOptions", None), "__annotations__", ()):  # an older commit may be measured
    unkept.task(name="noop", keep=None)(nothing)


async def noting(number: int, note: str, sent: float) -> None:
    """Note how long the job took from its enqueue call to here."""
    _note(number, sent)


async def holding(number: int, note: str, sent: float) -> None:
    """The same, and keep the hand busy for a while."""
    _note(number, sent)
    await asyncio.sleep(HELD)


hf.task(noting)
hf.task(holding)


def _note(number: int, sent: float) -> None:
    # The monotonic clock is one for all processes of a host; a short line in append mode is not cut in two by others.
    waited = (time.monotonic() - sent) * 1000
    os.write(_starts(), f"{number} {waited:.4f}\n".encode())


@functools.cache
def _starts() -> int:
    return os.open(os.environ[STARTS], os.O_WRONLY | os.O_APPEND)


@hf.task
async def stamp(sent: float) -> float:
    """How long the job took from its enqueue call to here; its result is kept in the archive."""
    return time.time() - sent


def _async(milliseconds: int) -> None:
    async def wait(number: int, note: str) -> None:
        if milliseconds:
            await asyncio.sleep(milliseconds / 1000)

    handlers.task(name=f"async_{milliseconds}")(wait)


def _plain(milliseconds: int) -> Callable[[int, str], None]:
    def wait(number: int, note: str) -> None:
        if milliseconds:
            time.sleep(milliseconds / 1000)

    return wait


def _sync(milliseconds: int) -> None:
    handlers.task(name=f"sync_{milliseconds}")(_plain(milliseconds))


def _process(milliseconds: int) -> None:
    handlers.task(name=f"process_{milliseconds}", process=True)(_plain(milliseconds))


KINDS = {"async": _async, "sync": _sync, "process": _process}
"""How a handler can be written; each makes one of its kind."""

for _make in KINDS.values():
    for _milliseconds in MILLISECONDS:
        _make(_milliseconds)


@busy.task(name="stamp", priority=0)
async def urgent(sent: float) -> float:
    return time.time() - sent


@busy.task(name="noop")
async def at_once(number: int, note: str) -> None:
    """Of a backlog in the same queue."""


@busy.task(queue="busy")
async def ten_ms(number: int, note: str) -> None:
    """Of a backlog in another queue."""
    await asyncio.sleep(0.01)


@faults.task
async def quick() -> None:
    pass


@faults.task
async def again(ctx: Context) -> None:
    await _endless(ctx)


@faults.task
async def again_tx(ctx: TxContext) -> None:
    """Its second attempt needs a lock that the first one holds."""
    await ctx.tx.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", str(ctx.job_id))
    await _endless(ctx)


async def _endless(ctx: Context) -> None:
    if ctx.attempt == 1:
        await asyncio.sleep(3600)
