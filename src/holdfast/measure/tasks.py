"""The jobs of a run. Its worker loads them as `holdfast.measure.tasks:hf`."""

from __future__ import annotations

import os
import time

from holdfast import Holdfast

SCHEMA = "HOLDFAST_MEASURE_SCHEMA"
"""The variable that names the run's schema."""
NOTE = "x" * 60
"""Makes a payload of about 100 bytes."""


async def single(number: int, note: str) -> None:
    """Enqueued one per commit."""


async def noop(number: int, note: str) -> None:
    """Does nothing, so that only Holdfast and the server are measured."""


async def stamp(sent: float) -> float:
    """Return the seconds from the call of enqueue to here."""
    return time.time() - sent


async def mark() -> list[float]:
    """Return the time, and the CPU seconds that this worker has used so far."""
    return [time.time(), time.process_time()]


def register(app: Holdfast) -> Holdfast:
    for function in (single, noop, stamp):
        app.task(function)
    app.task(priority=0)(mark)
    return app


hf = register(Holdfast(schema=os.environ.get(SCHEMA, "holdfast")))
