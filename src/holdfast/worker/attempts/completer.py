"""Write endings in batches: at once when idle, otherwise when the last batch is written or after two milliseconds.

Each batch is a commit, and every other commit waits for its turn at the disk, also that of the next claim. So when
jobs come one by one but close together, their endings are batched as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import assert_never, cast

from ...db.link import Link, backoff
from ...errors import Contended, Unreachable
from ...model.availability import Availability
from ...model.convoy import Convoy
from ...model.flow import AnyOutcome, FlowEnd, Parked
from ...model.job import Claim
from ...model.keep import Keep, as_installed
from ...model.occurrences import Occurrences, Part
from ...model.outcome import DONE, AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Snoozed
from ...model.report import Report
from ..leases.ledger import Ledger, now
from . import writing

Ending = tuple[Claim, AnyOutcome | Convoy]

LINGER = 0.002
AGAIN = 0.05
"""Seconds until an ending is written again whose parent was locked."""
CLOSE = 0.01
"""Seconds after a batch for which the next one lingers, even if nothing runs."""


class Completer:
    """Holds endings until they are written. A row leaves the ledger only then, so its lease is renewed until then."""

    def __init__(
        self,
        link: Link,
        ledger: Ledger,
        occurrences: Occurrences,
        lease: float,
        batch: int,
        keep: Keep[Claim] = as_installed,
    ) -> None:
        self._link = link
        self._ledger = ledger
        self._occurrences = occurrences
        self._availability = Availability(Part.ENDINGS, occurrences)
        self._lease = lease
        self._batch = batch
        self._keep = keep
        self._waiting: list[Ending] = []
        self._filled = asyncio.Event()
        self._full = asyncio.Event()
        self._closing = False
        self._writing = False
        self._wrote_at = 0.0
        self._put_off_now = 0
        """Endings that wait to be written again."""
        self._task: asyncio.Task[None] | None = None
        self.busy: Callable[[], bool] = lambda: False
        """Are handlers running? Then a batch waits for more endings; set by the engine."""
        self.vacate: Callable[[Claim], None] = lambda claim: None
        """Called when the ending of an ordered row is written or lost; set by the engine."""
        self.freed: Callable[[], None] = lambda: None
        """Called when there is room in the ledger again; set by the engine."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name="holdfast completer")

    @property
    def backlog(self) -> int:
        return len(self._waiting) + self._put_off_now

    @property
    def idle(self) -> bool:
        """Is every ending written?"""
        return not self._waiting and not self._writing and not self._put_off_now

    def add(self, claim: Claim, outcome: AnyOutcome | Convoy) -> None:
        """Add the outcome of an attempt."""
        if outcome is DONE:  # the usual ending
            self._ledger.end(claim.slot)
        else:
            match outcome:
                case HandedBack() | Ended(status=Final.EXPIRED):
                    self._ledger.put_back(claim.slot)
                case Completed() | Ended() | AttemptFailed() | Snoozed() | FlowEnd() | Parked() | Convoy():
                    self._ledger.end(claim.slot)
                case Lost():
                    self._ledger.end(claim.slot)
                    self._lose(claim)
                    self.freed()
                    return
                case _:
                    assert_never(outcome)
        if not self._waiting:  # otherwise it is set
            self._filled.set()
        self._waiting.append((claim, outcome))
        if len(self._waiting) >= self._batch:
            self._full.set()

    async def close(self, within: float) -> bool:
        """Write what is left, then stop. False if it took too long. May be called again after a cancellation."""
        self._closing = True
        self._filled.set()
        self._full.set()
        if self._task is None:
            return True
        done, _ = await asyncio.wait([self._task], timeout=within)
        if not done:
            self._task.cancel()
        return bool(done)

    async def _loop(self) -> None:
        while True:
            await self._filled.wait()
            if not self._waiting:
                if self._closing and not self._put_off_now:
                    return
                self._filled.clear()
                continue
            if not self._closing and len(self._waiting) < self._batch and self._more_to_come():
                await self._linger()
            batch, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            if len(self._waiting) < self._batch:
                self._full.clear()
            self._writing = True
            self._wrote_at = time.monotonic()
            try:
                await self._write(batch)
            finally:
                self._writing = False

    def _more_to_come(self) -> bool:
        """Is it worth waiting for more endings? Not with an ordered row, whose key waits for this ending."""
        if self.busy():
            return True
        closely = time.monotonic() - self._wrote_at < CLOSE
        return closely and not any(claim.ordered for claim, _ in self._waiting)

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER):
                await self._full.wait()
        except TimeoutError:
            pass

    async def _write(self, batch: list[Ending]) -> None:
        """Write one batch, through outages. An ending whose lease expires before that is lost."""
        repeated = False
        while batch := self._still_ours(batch):
            try:
                report = await writing.write(self._link, batch, repeated, self._keep)
            except (Unreachable, Contended) as error:
                repeated = True  # the batch is several statements: some may have been written
                self._availability.failed(error, rows=len(batch))
                await asyncio.sleep(backoff(self._availability.failures))
                continue
            except Exception as error:
                # Not an outage: the server rejected the statement. One bad ending must not fail the others.
                if len(batch) > 1:
                    for one in batch:
                        await self._write([one])
                    return
                self._occurrences.ending_rejected(batch[0][0], error)
                report = Report(lost=[claim for claim, _ in batch])
            self._availability.succeeded()
            self._settle(batch, report)
            self.freed()
            return

    def _still_ours(self, batch: list[Ending]) -> list[Ending]:
        at = now()
        sent_since = at - int(self._lease * 1e9)  # those that were claimed later are held by their first lease
        late = [claim for claim, _ in batch if claim.sent < sent_since]
        late = [claim for claim in late if self._ledger.expired(claim.slot, self._lease, at)]
        if not late:
            return batch
        for claim in late:
            self._lose(claim)
        self.freed()
        lost = {claim.slot for claim in late}  # not by id: a later claim of the same job may be in this batch
        return [ending for ending in batch if ending[0].slot not in lost]

    def _settle(self, batch: list[Ending], report: Report[Claim]) -> None:
        if report.again:
            batch = self._put_off(batch, report)
        each = _each(batch)
        self._occurrences.ended(each, report)
        if report.completed == len(each):  # the usual batch
            self._ledger.free_all([claim.slot for claim, _ in batch])
            for claim in [claim for claim, _ in batch if claim.ordered]:
                self.vacate(claim)
            return
        lost = {claim.id for claim in report.lost}
        for claim, outcome in batch:
            if claim.id in lost:
                self._lose(claim)
                continue
            if lost and isinstance(outcome, Convoy):  # others ended one of its rows while it was under way
                for follower in (each for each, _ in outcome.endings if each.id in lost):
                    self._occurrences.ending_lost(follower)
            self._free(claim)

    def _put_off(self, batch: list[Ending], report: Report[Claim]) -> list[Ending]:
        """Keep the endings of children whose parents are locked, for a later batch; return the others."""
        again = {claim.id for claim in report.again}
        later = [ending for ending in batch if ending[0].id in again]
        asyncio.get_running_loop().call_later(AGAIN, self._add_again, later)
        self._put_off_now += len(later)
        return [ending for ending in batch if ending[0].id not in again]

    def _add_again(self, endings: list[Ending]) -> None:
        self._put_off_now -= len(endings)
        self._waiting += endings
        self._filled.set()

    def _free(self, claim: Claim) -> None:
        self._ledger.free(claim.slot)
        if claim.ordered:
            self.vacate(claim)

    def _lose(self, claim: Claim) -> None:
        self._occurrences.ending_lost(claim)
        self._free(claim)


def _each(batch: list[Ending]) -> list[tuple[Claim, AnyOutcome]]:
    """The endings, those of convoys row by row."""
    if not [1 for _, outcome in batch if isinstance(outcome, Convoy)]:  # the usual batch: it needs no copy
        return cast("list[tuple[Claim, AnyOutcome]]", batch)
    each: list[tuple[Claim, AnyOutcome]] = []
    for claim, outcome in batch:
        if isinstance(outcome, Convoy):
            each += outcome.endings
        else:
            each.append((claim, outcome))
    return each
