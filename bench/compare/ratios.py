"""What pairs of turns say: the ratio of each, their median, its interval, and a verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

CONFIDENCE = 0.95
MARGIN = 0.03
"""A regression is an interval that lies wholly beyond so much worse."""
WORSE, BETTER, NONE, UNKNOWN = "worse", "better", "no difference shown", "too few turns"


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """That holds the median of what the values are drawn from with this confidence or more; None if they are too few.

    The r-th smallest and the r-th largest value miss it only if fewer than r of n values fall on one side of it, which
    has the chance of as many heads in n tosses of a coin. r is the largest for which that is rare enough.
    """
    n, ascending = len(values), sorted(values)
    missed, rank = 0.0, 0
    while rank < n and missed + comb(n, rank) / 2**n <= (1 - confidence) / 2:
        missed += comb(n, rank) / 2**n
        rank += 1
    return (ascending[rank - 1], ascending[n - rank]) if rank else None


@dataclass(frozen=True, slots=True)
class Ratios:
    """Of one figure: this ÷ other, one for each pair of turns."""

    these: Sequence[float]
    others: Sequence[float]
    more_is_better: bool

    @property
    def each(self) -> list[float]:
        return [this / other for this, other in zip(self.these, self.others, strict=True)]

    @property
    def median(self) -> float:
        return statistics.median(self.each)

    @property
    def interval(self) -> tuple[float, float] | None:
        return interval(self.each)

    @property
    def verdict(self) -> str:
        if (reach := self.interval) is None:
            return UNKNOWN
        less, more = reach[1] < 1 - MARGIN, reach[0] > 1 + MARGIN
        if not less and not more:
            return NONE
        return BETTER if more is self.more_is_better else WORSE
