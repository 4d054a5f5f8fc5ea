"""Ours once more, in turns with the peers: what a machine does now and what it did an hour ago are not one run."""

from __future__ import annotations

from ..drain import once
from ..enqueue import CALLS, many, report
from ..figures import Results
from ..ground import Ground

JOBS = 100_000
HOW = ", in turns with the peers"


class Ours:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._drained: list[float] = []
        self._enqueued: dict[str, list[float]] = {case: [] for case in CALLS}

    async def drain(self) -> str:
        self._drained.append((await once(self._ground, JOBS)).rate)
        return f"{self._drained[-1]:,.0f} jobs/s"

    async def enqueue(self) -> str:
        for case, rates in self._enqueued.items():
            rates.append(await many(self._ground, case))
        return ", ".join(f"{rates[-1]:,.0f} by {CALLS[case][0]}" for case, rates in self._enqueued.items())

    def report_drain(self, results: Results) -> None:
        results.add("drain", f"{JOBS:,} no-op jobs{HOW}", "jobs/s", self._drained, case="rate")

    def report_enqueue(self, results: Results) -> None:
        report(results, self._enqueued, HOW)
