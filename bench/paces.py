"""Paces and bursts: the ordinary trickle of jobs on an idle worker, and many jobs at once over a fleet that sleeps.

A pace is one job every so often, give or take half, by one producer. Between 2 and 50 ms the next job comes while the
worker has not fallen asleep yet, or not for long; at 250 ms and 1 s it sleeps.

A burst comes after more than a second of silence, by one call for many or by one call each at the same time, over
workers that have one hand each; a job takes 50 ms, so that one worker cannot take them all. What counts is when each
job started, and when the last one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SILENCE = (1.2, 1.7)
"""Seconds before each burst, at least and at most; the burst before has ended by then."""


@dataclass(frozen=True, slots=True)
class Pace:
    seconds: float
    jobs: Mapping[str, int]
    """In one turn, by the size of the run."""

    @property
    def name(self) -> str:
        return f"{self.seconds:g} s" if self.seconds >= 1 else f"{self.seconds * 1000:g} ms"

    @property
    def case(self) -> str:
        return f"pace.{self.name.replace(' ', '')}"

    @property
    def words(self) -> str:
        return f"a job every {self.name}"

    @property
    def between(self) -> tuple[float, float]:
        return self.seconds * 0.5, self.seconds * 1.5


@dataclass(frozen=True, slots=True)
class Burst:
    jobs: int
    hands: int
    """Workers in the fleet, one hand each."""
    how: str
    """`many`: one call for all; `one`: a call each."""

    @property
    def case(self) -> str:
        return f"burst.{self.jobs}on{self.hands}.{self.how}"

    @property
    def words(self) -> str:
        calls = "one call" if self.how == "many" else f"{self.jobs} calls"
        return f"{self.jobs} jobs by {calls}, {self.hands} workers asleep"


def _of(full: int, reduced: int, short: int) -> Mapping[str, int]:
    return {"full": full, "reduced": reduced, "short": short}


PACES = (
    Pace(0.002, _of(400, 150, 200)),
    Pace(0.01, _of(200, 100, 150)),
    Pace(0.05, _of(100, 60, 60)),
    Pace(0.25, _of(60, 20, 12)),
    Pace(1.0, _of(15, 6, 0)),
)
BURSTS = tuple(Burst(jobs, hands, how) for jobs, hands in ((4, 4), (4, 8), (40, 8)) for how in ("many", "one"))
SHORT = (Burst(4, 8, "one"), Burst(40, 8, "many"))
"""What a short turn has time for."""
ROUNDS = _of(4, 2, 3)
REPEATS = _of(5, 2, 1)
"""Turns of a run; percentiles are those of all turns together, so that rare waits show."""


def paces(size: str) -> Sequence[Pace]:
    return [pace for pace in PACES if pace.jobs[size]]


def fleets(size: str) -> Mapping[int, Sequence[Burst]]:
    """The bursts of each fleet."""
    chosen = SHORT if size == "short" else BURSTS
    return {hands: [burst for burst in chosen if burst.hands == hands] for hands in sorted({b.hands for b in chosen})}
