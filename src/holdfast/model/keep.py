"""What is kept of a job that has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from .job import Claim, Holding

H = TypeVar("H", bound=Holding)

Keep = Callable[[H], int | None]
"""What is kept of a row if its job completes: NOTHING, THE_KEY, or its row in the archive, for a number of days or, if
None, as the installation says."""

NOTHING = 0
"""A completed job leaves no row."""
THE_KEY = -1
"""It leaves no row either, but its idempotency key is remembered."""


def as_installed(held: Holding) -> None:
    """Keep every row for as long as the installation says."""


def keep_of(kinds: Mapping[str, int | None]) -> Keep[Claim]:
    """What is kept of jobs of these kinds."""
    numbers = {kind: number for kind, number in kinds.items() if number is not None}
    if not numbers:
        return as_installed

    def keep(claim: Claim) -> int | None:
        number = numbers.get(claim.kind)
        return THE_KEY if number == NOTHING and claim.idempotency_key is not None else number

    return keep


CLASSES = (1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 365, 730)
"""For how many days rows can be kept. Each that is used is one more partition per day, so there are few."""
DAY = 86400


def days_of(seconds: float) -> int | None:
    """The number of days for which rows are kept if they must be kept for this time; None: that is too long."""
    return next((days for days in CLASSES if days * DAY >= seconds), None)
