"""Write steps behind the code of instances, and bring their histories: many instances in one trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from ...db.database import Database
from ...db.link import Link
from ...model.flow import History, Standing, StepRecord
from ...model.job import Claim
from ...model.occurrences import Occurrences, Part
from ...workflow import recording
from ...workflow.recording import Locked
from ..attempts.permits import KEPT, Lender, Permits
from ..leases.ledger import Ledger, now
from ..settings import WorkerSettings
from .batching import Batches

MOST = 150
"""Instances whose steps are written in one trip: more would wait for each other longer than the trip costs."""


class FlowRecords:
    """Where the steps of this worker's instances are."""

    def __init__(
        self,
        database: Database,
        occurrences: Occurrences,
        ledger: Ledger,
        settings: WorkerSettings,
        worker: str,
        draining: asyncio.Event,
        permits: Permits,
    ) -> None:
        self._draining = draining
        self._permits = permits
        self._ledger = ledger
        self._lease = settings.lease
        self._lease_ns = int(settings.lease * 1e9)
        # Opened when they are needed. What is read does not wait for what is written.
        names = ("steps", "steps 2", "history")
        self._links = [Link(database, f"{name} {worker}", deadline=settings.deadline) for name in names]
        lease = settings.lease
        self._recorder = _Recorder(Part.WORKFLOWS, occurrences, ledger, lease, self._links[:2], MOST)
        self._histories = _Histories(Part.WORKFLOWS, occurrences, ledger, lease, self._links[2:], 2 * MOST)

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    def holds(self, claim: Claim) -> bool:
        at = now()  # most steps run within the first lease
        return at - claim.sent <= self._lease_ns or not self._ledger.expired(claim.slot, self._lease, at)

    def load(self, claim: Claim) -> Awaitable[History]:
        return self._histories.ask(claim, None, self._lender())

    def record(self, claim: Claim, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        return self._recorder.ask(claim, records, self._lender() if alone else KEPT)

    def _lender(self) -> Lender:
        """Lend the permit of an instance that only waits for an answer; not during an outage: others would begin in
        its place, and their steps could not be recorded either."""
        if self._recorder.unavailable or self._histories.unavailable:
            return KEPT
        self._permits.lend()
        return self._permits

    async def close(self) -> None:
        await self._recorder.close()
        await self._histories.close()
        for link in self._links:
            await link.close()


class _Recorder(Batches[Sequence[StepRecord], Standing]):
    async def _trip(
        self, link: Link, batch: list[tuple[Claim, Sequence[StepRecord]]]
    ) -> list[Standing | Locked | None]:
        return await recording.record_once(link, batch)


class _Histories(Batches[None, History]):
    async def _trip(self, link: Link, batch: list[tuple[Claim, None]]) -> list[History | Locked | None]:
        found = await recording.load(link, [claim.id for claim, _ in batch])
        return [found.get(claim.id) or History() for claim, _ in batch]
