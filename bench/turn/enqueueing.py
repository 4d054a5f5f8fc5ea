"""A producer: one job per commit, and many per call, while no worker is there."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from holdfast import Holdfast

from ..app import NOTE, nothing
from .measured import Measured
from .place import Place

SINGLES = 600
MANY = {"bulk": (1_000, 40), "copy": (5_000, 8)}
"""Jobs a call, and calls."""


async def enqueued(place: Place) -> list[Measured]:
    app = Holdfast(place.url)
    task = app.task(name="noop")(nothing)

    async def single() -> None:
        await task.enqueue(1, NOTE)

    try:
        measured = [await _rate(place, "single", "one per commit", single, SINGLES)]
        for case, (size, calls) in MANY.items():
            rows = [{"number": n, "note": NOTE} for n in range(size)]

            async def many(rows: list[dict[str, object]] = rows) -> None:
                await task.enqueue_many(rows)

            measured.append(await _rate(place, case, f"enqueue_many, {size:,} a call", many, calls, size))
        return measured
    finally:
        await app.close()


async def _rate(
    place: Place, case: str, words: str, call: Callable[[], Awaitable[None]], calls: int, jobs: int = 1
) -> Measured:
    """After a tenth of the calls that do not count."""
    for _ in range(max(calls // 10, 1)):
        await call()
    before, began = place.used(), time.perf_counter()
    for _ in range(calls):
        await call()
    rate = calls * jobs / (time.perf_counter() - began)
    return Measured("enqueue", case, words, "jobs/s", [rate], True, place.per_job(before, None, calls * jobs))
