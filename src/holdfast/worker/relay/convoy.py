"""Convoys under way: events of one key each, sent one after the other under the hold on the first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from uuid import UUID

from ...model.convoy import Convoy
from ...model.event import Message
from ...model.job import Claim
from ...model.outcome import Completed, Outcome

LENGTH = 10
"""Most rows of a convoy. If the process dies, those that have arrived are sent again."""
LASTS = 1.0
"""Seconds after which a convoy does not go on: what has arrived is to be recorded."""


class Convoys:
    """Those of one relay, by their slots in the ledger, which are those of their heads."""

    def __init__(self, most: int) -> None:
        self._most = most
        """Bytes of events from which on no more are formed."""
        self._bytes = 0
        self._under_way: dict[int, Convoying] = {}

    @property
    def full(self) -> bool:
        return self._bytes > self._most

    def form(self, head: Claim, behind: Sequence[Claim], loaded: Mapping[UUID, Message]) -> None:
        """Let rows follow this one, as far as their events were loaded without a gap."""
        rows = [(row, loaded[row.id]) for row in takewhile(lambda row: row.id in loaded, behind)]
        if head.id in loaded and rows:
            convoy = self._under_way[head.slot] = Convoying(head, rows)
            self._bytes += convoy.bytes

    def follows(self, claim: Claim) -> bool:
        """Is it a row of a convoy, and not its head?"""
        return claim.slot in self._under_way and self._under_way[claim.slot].begun

    def arrived(self, claim: Claim, completed: Completed) -> tuple[Claim, Message] | None:
        """Note that a row has arrived. Returns the next one of its convoy, if there is one and it may go on."""
        convoy = self._under_way.get(claim.slot)
        return None if convoy is None else convoy.arrived(claim, completed)

    def ending(self, claim: Claim, outcome: Outcome) -> tuple[Claim, Outcome | Convoy]:
        """What to write when a row has ended and nothing follows it: of a convoy, all rows that have arrived."""
        if (convoy := self._under_way.pop(claim.slot, None)) is None:
            return claim, outcome
        self._bytes -= convoy.bytes
        return convoy.ending(outcome)


class Convoying:
    """One of them."""

    def __init__(self, head: Claim, behind: Sequence[tuple[Claim, Message]]) -> None:
        self._head = head
        self._behind = deque(behind)
        self._until = time.monotonic() + LASTS
        self._done: list[tuple[Claim, Completed]] = []
        self.bytes = sum(len(message.data) for _, message in behind)

    @property
    def begun(self) -> bool:
        """Has its head arrived? Then nothing that happens to a later row is about the head."""
        return bool(self._done)

    def arrived(self, claim: Claim, completed: Completed) -> tuple[Claim, Message] | None:
        """Note that a row has arrived. Returns the next one, if there is one and the convoy may go on."""
        self._done.append((claim, completed))
        return self._behind.popleft() if self._behind and time.monotonic() < self._until else None

    def ending(self, outcome: Outcome) -> tuple[Claim, Outcome | Convoy]:
        """What to write when it does not go on: the rows that have arrived; if there are none, `outcome` of its head.
        All later rows still wait."""
        match self._done:
            case []:
                return self._head, outcome
            case [only]:
                return only
            case _:
                return self._head, Convoy(tuple(self._done))
