"""The rows that a relay is sending, and how each ends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

from ...model.event import Message
from ...model.job import Claim
from ...model.occurrences import Occurrences
from ...model.outcome import Completed, Lost, Outcome
from ..attempts.completer import Completer
from ..attempts.deciding import Unstarted, unstarted
from ..leases.ledger import Ledger
from .convoy import Convoys
from .losses import Losses


class InFlight:
    """Rows from when they are chosen to be sent until the completer has them; and of convoys, those that come next."""

    def __init__(
        self,
        ledger: Ledger,
        completer: Completer,
        occurrences: Occurrences,
        convoys: Convoys,
        losses: Losses,
        filled: asyncio.Event,
        draining: asyncio.Event,
    ) -> None:
        self._ledger = ledger
        self._completer = completer
        self._occurrences = occurrences
        self._convoys = convoys
        self._losses = losses
        self._filled = filled
        self._draining = draining
        self.rows: dict[UUID, Claim] = {}
        self._began: dict[UUID, float] = {}
        """When each of those was sent, of `time.perf_counter`."""
        self.following: deque[tuple[Claim, Message]] = deque()
        """Rows of convoys whose turn has come."""
        self.vacate: Callable[[Claim], None] = lambda claim: None
        """Called when a row of an ordered key has ended without the completer."""

    def add(self, claim: Claim) -> bool:
        """Let it take its place, unless it is lost already.

        If this process could not renew it for a while, a row may be claimed again while it is still being sent. Then
        the older claim is lost, and whatever becomes of its message is said of the newer one. The older one may also be
        that which comes later: a row of a convoy, with the fence of its head.
        """
        if (before := self.rows.get(claim.id)) is not None:
            if before.fence > claim.fence:
                self.leave(claim, unstarted(Unstarted.LEASE_LOST))
                return False
            self.remove(before)
            self.leave(before, unstarted(Unstarted.LEASE_LOST))
        self.rows[claim.id] = claim
        return True

    def remove(self, claim: Claim) -> bool:
        """Let this claim leave, and no other of its row. True if it was there."""
        if self.rows.get(claim.id) is not claim:
            return False
        del self.rows[claim.id]
        if (began := self._began.pop(claim.id, None)) is not None:
            claim.took = time.perf_counter() - began
        return True

    def start(self, messages: Sequence[Message]) -> None:
        """Note that these are sent now."""
        began = time.perf_counter()
        for message in messages:
            if (claim := self.rows.get(message.delivery)) is not None:
                self._began[claim.id] = began
                self._occurrences.started(claim)

    def left(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those of them that have not ended."""
        return [claim for claim in claims if self.rows.get(claim.id) is claim]

    # How a row ends

    def end(self, claim: Claim, outcome: Outcome) -> None:
        """End a row, or let the next one of its convoy follow it."""
        self.remove(claim)
        if self._goes_on(claim, outcome):
            return
        self.leave(claim, outcome)
        self._ledger.put_back(claim.slot)  # if this process dies now, no attempt is lost

    def _goes_on(self, claim: Claim, outcome: Outcome) -> bool:
        """A row has ended. If it is of a convoy: is it the turn of the next one?"""
        following = self._convoys.arrived(claim, outcome) if isinstance(outcome, Completed) else None
        if following is None or self._draining.is_set() or self._losses.suspicious(following[0].id):
            return False
        self.following.append(following)
        self._filled.set()
        return True

    def leave(self, claim: Claim, outcome: Outcome) -> None:
        """Leave a row to the completer; of a convoy, all rows that have arrived, under the hold on its head."""
        self._completer.add(*self._convoys.ending(claim, outcome))

    def written(self, claim: Claim, lost: bool) -> None:
        """Let go of a row whose ending is written already, or that is another's."""
        self.remove(claim)
        if lost:
            self._completer.add(claim, Lost())
            return
        self._ledger.free(claim.slot)
        if claim.ordered:
            self.vacate(claim)

    def end_following(self) -> None:
        """End the convoys whose next row was not sent."""
        while self.following:
            self.end(self.following.popleft()[0], unstarted(Unstarted.WAITED))

    def end_all(self) -> None:
        """End what is in flight; nobody knows whether it has arrived."""
        for claim in list(self.rows.values()):
            self.end(claim, unstarted(Unstarted.WAITED))
