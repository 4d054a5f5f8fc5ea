"""Who takes claimed rows."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ...model.job import Claim


class Taker(Protocol):
    """Who takes claimed rows: the hands, which run jobs, or the relay of a route."""

    coming: int
    """Claimed rows that are about to be taken."""
    demand: asyncio.Event
    """Set when there is room, or will be in a moment."""

    @property
    def closed(self) -> bool:
        """Does it take nothing now?"""

    @property
    def held(self) -> int:
        """How many rows it has."""

    @property
    def lent(self) -> int:
        """How many of them leave room for others."""

    @property
    def ahead(self) -> int:
        """How many rows to hold beyond the running ones."""

    @property
    def waiting(self) -> bool:
        """Are there claimed rows that nobody works on yet?"""

    def take(self, claims: list[Claim], at: int) -> None:
        """Take these claimed rows; their claim was sent at `at`."""

    def take_soon(self, claims: list[Claim], at: int) -> None:
        """As `take`, in the next round of the event loop."""
