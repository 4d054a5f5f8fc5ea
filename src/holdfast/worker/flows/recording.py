"""Write steps behind the code of instances, and bring their histories: many instances in one trip."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence

from ...db.database import Database
from ...db.link import Link
from ...model.flow import History, Standing, StepRecord
from ...model.job import Claim
from ...model.occurrences import Occurrences, Part
from ...workflow import recording
from ..leases.ledger import Ledger, now
from ..settings import WorkerSettings
from .batching import Batches


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
    ) -> None:
        self._draining = draining
        self._ledger = ledger
        self._lease = settings.lease
        self._lease_ns = int(settings.lease * 1e9)
        # Opened when they are needed. What is read does not wait for what is written.
        names = ("steps", "steps 2", "history")
        self._links = [Link(database, f"{name} {worker}", deadline=settings.deadline) for name in names]
        half = math.ceil(settings.concurrency / 2)
        self._recorder = _Recorder(Part.WORKFLOWS, occurrences, ledger, settings.lease, self._links[:2], half)
        self._histories = _Histories(Part.WORKFLOWS, occurrences, ledger, settings.lease, self._links[2:], 2 * half)

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    def holds(self, claim: Claim) -> bool:
        at = now()  # most steps run within the first lease
        return at - claim.sent <= self._lease_ns or not self._ledger.expired(claim.slot, self._lease, at)

    def load(self, claim: Claim) -> Awaitable[History]:
        return self._histories.ask(claim, None)

    def record(self, claim: Claim, records: Sequence[StepRecord]) -> Awaitable[Standing]:
        return self._recorder.ask(claim, records)

    async def close(self) -> None:
        await self._recorder.close()
        await self._histories.close()
        for link in self._links:
            await link.close()


class _Recorder(Batches[Sequence[StepRecord], Standing]):
    async def _trip(self, link: Link, batch: list[tuple[Claim, Sequence[StepRecord]]]) -> list[Standing | None]:
        return await recording.record_all(link, batch)


class _Histories(Batches[None, History]):
    async def _trip(self, link: Link, batch: list[tuple[Claim, None]]) -> list[History | None]:
        found = await recording.load(link, [claim.id for claim, _ in batch])
        return [found.get(claim.id) or History() for claim, _ in batch]
