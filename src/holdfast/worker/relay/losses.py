"""Which rows may be the reason that a connection is lost."""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

REMEMBERED = 10_000
"""How many rows that lost their connection are remembered."""
SUSPICIOUS = 2
"""How often a row must have lost its connection to be sent alone."""


class Losses:
    """Counts the lost connections of each row, but only while others get through.

    Otherwise it may be an outage in which connections can be made and nothing is confirmed: a broker with an alarm, or
    without a leader. It costs no attempt.
    """

    def __init__(self) -> None:
        self._of: OrderedDict[UUID, tuple[int, int]] = OrderedDict()
        """How often a row has lost its connection, and how many messages were answered until then."""
        self._answered = 0
        self.in_doubt = False
        """Was nothing answered since a connection was lost? Then rows are sent one by one."""

    def answered(self) -> None:
        """Note that the destination has answered a message."""
        self._answered += 1
        self.in_doubt = False

    def lost(self, row: UUID) -> bool:
        """Note that a row has lost its connection. True if it counts."""
        self.in_doubt = True
        losses, answered = self._of.pop(row, (0, -1))
        counts = self._answered > answered
        self._of[row] = (losses + 1, self._answered) if counts else (losses, answered)
        while len(self._of) > REMEMBERED:
            self._of.popitem(last=False)
        return counts

    def suspicious(self, row: UUID) -> bool:
        """Must it be sent alone?"""
        return row in self._of and self._of[row][0] >= SUSPICIOUS

    def forget(self, row: UUID) -> None:
        self._of.pop(row, None)
