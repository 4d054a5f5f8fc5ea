"""Ours once more, in turns with the peers: what a machine does now and what it did an hour ago are not one run."""

from __future__ import annotations

from ..drain import once
from ..enqueue import CALLS, many, report, singles
from ..figures import Results
from ..ground import Ground
from ..pickup import Pickups, measure

JOBS = 100_000
SINGLES = 600
HOW = ", in turns with the peers"


class Ours:
    def __init__(self, ground: Ground, size: str) -> None:
        self._ground = ground
        self._size = size
        self._drained: list[float] = []
        self._single: list[float] = []
        self._enqueued: dict[str, list[float]] = {case: [] for case in CALLS}
        self.pickups = Pickups()

    async def drain(self) -> str:
        self._drained.append((await once(self._ground, JOBS)).rate)
        return f"{self._drained[-1]:,.0f} jobs/s"

    async def enqueue(self) -> str:
        self._single.append(await singles(self._ground, SINGLES))
        for case, rates in self._enqueued.items():
            rates.append(await many(self._ground, case))
        by = ", ".join(f"{rates[-1]:,.0f} by {CALLS[case][0]}" for case, rates in self._enqueued.items())
        return f"{self._single[-1]:,.0f} jobs/s one by one, {by}"

    async def pickup(self) -> str:
        await measure(self._ground, self._size, self.pickups)
        return self.pickups.said()

    def report_drain(self, results: Results) -> None:
        results.add("drain", f"{JOBS:,} no-op jobs{HOW}", "jobs/s", self._drained, case="rate")

    def report_enqueue(self, results: Results) -> None:
        results.add("enqueue", f"one per commit{HOW}", "jobs/s", self._single, case="single")
        report(results, self._enqueued, HOW)
