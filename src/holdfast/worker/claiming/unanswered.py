"""Claims whose answer was lost. The server may have committed them, and then it has rows of ours that nobody here
knows: they would wait until their lease runs out.

When the server answers again, we ask it for all rows of this worker, and hand back those that the ledger does not hold.
A claim that is in progress meanwhile has rows that the ledger does not hold yet, so we wait for it first. Rows are
handed back by id and generation: what has ended in the meantime is not touched.

A claim that the server commits after we have asked is left to its lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...db.link import Link, backoff
from ...errors import Contended, Unreachable
from ...inbox import ending
from ...model.job import Hold
from ...model.occurrences import Occurrences
from ..leases.ledger import Ledger

LOOK = 0.01


class Unanswered:
    """One for all claim loops of a worker."""

    def __init__(self, link: Link, worker: str, ledger: Ledger, occurrences: Occurrences, deadline: float) -> None:
        self._link = link
        self._worker = worker
        self._ledger = ledger
        self._occurrences = occurrences
        self._deadline = deadline
        self._lost = asyncio.Event()
        self._begun = 0
        self._open: set[int] = set()
        """The claims in progress."""
        self.wake: Callable[[], None] = lambda: None
        """Let the loops look for rows that were handed back; set by the engine."""

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Around each claim, until its rows are in the ledger."""
        self._begun += 1
        number = self._begun
        self._open.add(number)
        try:
            yield
        except Unreachable:
            self._lost.set()
            raise
        finally:
            self._open.discard(number)

    async def run(self) -> None:
        """Hand back the rows of lost answers, for ever."""
        failures = 0
        while True:
            await self._lost.wait()
            self._lost.clear()
            try:
                await self._hand_back()
                failures = 0
            except (Unreachable, Contended):
                self._lost.set()
                failures += 1
                await asyncio.sleep(backoff(failures))

    async def _hand_back(self) -> None:
        claimed = await ending.claimed_by(self._link, self._worker)
        if not self._without_known(claimed):
            return
        await self._end_of_claims()
        if not (unknown := self._without_known(claimed)):
            return
        self._occurrences.unanswered(self._worker, await ending.hand_back(self._link, unknown))
        self.wake()

    def _without_known(self, rows: set[Hold]) -> set[Hold]:
        return rows - {Hold(self._worker, row.id, row.generation) for row in self._ledger.held()}

    async def _end_of_claims(self) -> None:
        """Wait until the claims have ended that are in progress now. Each call has a deadline, so none takes longer; a
        loop that goes on for longer runs a suspect, whose row is known by then."""
        before, over = set(self._open), time.monotonic() + self._deadline
        while before & self._open and time.monotonic() < over:
            await asyncio.sleep(LOOK)
        await asyncio.sleep(LOOK)  # rows that are taken in the next round of the loop are in the ledger then
