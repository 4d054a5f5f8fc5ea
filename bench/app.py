"""The application whose jobs the benchmarks run."""

import time

from holdfast import Holdfast

hf = Holdfast()

NOTE = "x" * 60
"""Makes a payload of about 100 bytes."""


@hf.task
async def noop(number: int, note: str) -> None:
    """Nothing, so that everything measured is ours."""


@hf.task
async def stamp(sent: float) -> float:
    """How long the job took from its enqueue call to here; its result is kept in the archive."""
    return time.time() - sent
