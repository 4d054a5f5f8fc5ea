"""From what was measured to the figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median


def between(marks: Sequence[float]) -> list[float]:
    """Milliseconds from each mark, in seconds, to the next."""
    return [(later - earlier) * 1000 for earlier, later in pairwise(marks)]


def waits(sent: Sequence[float], went_on: Sequence[float]) -> list[float]:
    """Seconds from each signal until the code had gone on."""
    return [after - before for before, after in zip(sent, went_on, strict=True)]


def per_step(long: Sequence[float], short: Sequence[float], steps: int) -> float:
    """Microseconds of a recorded step, from the waits of an instance that has them and of one that has none.

    The first of each does not count: connections, prepared statements, caches.
    """
    return (median(long[1:]) - median(short[1:])) / steps * 1e6


def scaled(seconds: float, measured: int, stated: int) -> float:
    """What the number for which the target is stated would take at the same rate."""
    return seconds * stated / measured
