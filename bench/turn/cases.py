"""What a turn can be about: the cases of each axis that can be compared, and the migration before them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast import Holdfast

from .draining import drained
from .enqueueing import enqueued
from .measured import Measured
from .pickup import at_paces, in_bursts
from .place import Place

Case = Callable[[Place], Coroutine[Any, Any, list[Measured]]]

NEIGHBOURS = 10


async def migrate(place: Place) -> list[Measured]:
    app = Holdfast(place.url)
    try:
        await app.migrate()
    finally:
        await app.close()
    return []


async def _drain(place: Place) -> list[Measured]:
    return await drained(place, "drain", "rate", "no-op jobs", 80_000)


async def _interleaved(place: Place) -> list[Measured]:
    jobs = 30_000
    words = "ordered jobs, keys interleaved"
    return await drained(place, "ordered", "interleaved", words, jobs, keys="interleaved", of=jobs // NEIGHBOURS)


async def _neighbours(place: Place) -> list[Measured]:
    words = f"ordered jobs, {NEIGHBOURS} neighbours per key"
    return await drained(place, "ordered", "neighbours", words, 30_000, keys="neighbours", of=NEIGHBOURS)


async def _threads(place: Place) -> list[Measured]:
    return await drained(place, "handlers", "sync.0", "plain functions", 20_000, kind="sync_0", app="handlers")


async def _processes(place: Place) -> list[Measured]:
    words = "functions in processes"
    return await drained(place, "handlers", "process.0", words, 8_000, kind="process_0", app="handlers")


AXES: dict[str, dict[str, Case]] = {
    "drain": {"drain": _drain},
    "enqueue": {"enqueue": enqueued},
    "pickup": {"paces": at_paces, "bursts": in_bursts},
    "ordered": {"interleaved": _interleaved, "neighbours": _neighbours},
    "handlers": {"threads": _threads, "processes": _processes},
}
"""The turns of each axis that can be compared."""
CASES: dict[str, Case] = {"migrate": migrate} | {name: case for axis in AXES.values() for name, case in axis.items()}
