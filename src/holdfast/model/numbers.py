"""Numbers: what is measured, and what attempts did, as values without I/O.

A *gauge* is the newest value of something that is too expensive to count on demand. A *tally of attempts* is what
attempts did in some time: counts, and two histograms. The bounds of the histograms are powers of two, from 2^-10 s (a
millisecond) to 2^11 s (half an hour), so that two of them can be added, and a quantile is off by less than a factor of
two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

LOWEST, HIGHEST = -10, 11
BOUNDS: Final = tuple(2.0**power for power in range(LOWEST, HIGHEST + 1))
"""Upper bounds of the buckets, in seconds; the last bucket has none."""
BUCKETS: Final = len(BOUNDS) + 1
OTHER: Final = "(other)"
"""Stands for the queues and kinds of which there are too many to count each."""
STALE: Final = 60.0
"""Seconds after which stored gauges are not believed: nobody does the chores. They are then measured again."""


class Histogram(msgspec.Struct):
    """How long things took: counts per bucket, and the sum of all seconds."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * BUCKETS)
    sum: float = 0.0

    @classmethod
    def of(cls, samples: Iterable[float]) -> Histogram:
        """Return the histogram of these seconds."""
        new = cls()
        new.cut(list(samples))
        return new

    def cut(self, samples: list[float]) -> None:
        """Add these seconds, all at once: sorted, and cut at the bounds. They are sorted in place."""
        if not samples:
            return
        samples.sort()
        self.sum += sum(samples)
        counts, begin = self.counts, 0
        for bucket, bound in enumerate(BOUNDS):
            end = bisect_right(samples, bound, begin)
            counts[bucket] += end - begin
            begin = end
            if begin == len(samples):
                return
        counts[-1] += len(samples) - begin

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add another one; missing buckets at its end are empty."""
        for bucket, count in enumerate(counts):
            self.counts[bucket] += count
        self.sum += total

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """The seconds within which this share stayed, interpolated in its bucket; None: there is nothing."""
        rank = share * self.count
        if not self.count:
            return None
        below = 0
        for bucket, count in enumerate(self.counts):
            if count and below + count >= rank:
                if bucket == len(BOUNDS):
                    return BOUNDS[-1]
                lower = BOUNDS[bucket - 1] if bucket else 0.0
                return lower + (BOUNDS[bucket] - lower) * max(rank - below, 0.0) / count
            below += count
        return BOUNDS[-1]


ENDS: Final = ("completed", "failed", "cancelled", "expired", "retried", "dead", "snoozed", "parked")
"""How attempts end, as they are counted."""


class Attempts(msgspec.Struct):
    """What attempts did in some time."""

    started: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    retried: int = 0
    dead: int = 0
    snoozed: int = 0
    parked: int = 0
    """Runs of workflows that ended by waiting."""
    fenced: int = 0
    """Endings that were not written: another worker has the row, or may have it."""
    lease_losses: int = 0
    reconnects: int = 0
    run: Histogram = msgspec.field(default_factory=Histogram)
    """How long attempts ran."""
    pickup: Histogram = msgspec.field(default_factory=Histogram)
    """How long due jobs waited for their claim."""

    @property
    def ended(self) -> int:
        """How many attempts ended, in any way."""
        return sum(getattr(self, name) for name in ENDS)

    @property
    def retry_rate(self) -> float:
        """The share of attempts that failed: retried, or dead letters."""
        return min((self.retried + self.dead) / self.started, 1.0) if self.started else 0.0

    def counts(self) -> dict[str, int]:
        """The counts by name, without the histograms."""
        return {name: getattr(self, name) for name in COUNTS}


COUNTS: Final = tuple(name for name in Attempts.__struct_fields__ if name not in ("run", "pickup"))
"""The names of the counts of `Attempts`; columns of `holdfast.minutes`."""


class Gauge(msgspec.Struct, frozen=True):
    """The newest value of something."""

    name: str
    value: float
    queue: str = ""
    kind: str = ""
    label: str = ""
    """What else it is about: a state, a route, a chore, a status."""
    exact: bool = True
    """False: estimated from a sample."""


class Count(msgspec.Struct, frozen=True):
    """A number of jobs, which may be an estimate."""

    value: int = 0
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.value}" if self.exact else f"≈ {self.value}"

    def __add__(self, other: Count) -> Count:
        return Count(self.value + other.value, self.exact and other.exact)


def count_of(gauges: Iterable[Gauge]) -> Count:
    """Return the sum of these gauges."""
    return sum((Count(round(each.value), each.exact) for each in gauges), Count())


def by_queue(gauges: Iterable[Gauge], name: str) -> Mapping[str, list[Gauge]]:
    """Return the gauges of this name by queue."""
    found: dict[str, list[Gauge]] = {}
    for gauge in gauges:
        if gauge.name == name:
            found.setdefault(gauge.queue, []).append(gauge)
    return found
