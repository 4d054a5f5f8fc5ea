"""What a turn says: the values of each case, with words and unit, as JSON between two processes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    axis: str
    case: str
    """A short name within the axis."""
    words: str
    unit: str
    values: Sequence[float]
    """One rate; or the times of many jobs."""
    more_is_better: bool
    cpu: float | None = None
    """Microseconds a job, of the worker or producer and the server; None if it was not or could not be measured."""


def write(measured: Iterable[Measured]) -> str:
    return json.dumps([asdict(each) for each in measured])


def read(text: str) -> list[Measured]:
    return [Measured(**each) for each in json.loads(text)]
