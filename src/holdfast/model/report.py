"""What became of a batch of endings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .job import Holding

H = TypeVar("H", bound=Holding)


@dataclass(slots=True)
class Report(Generic[H]):
    completed: int = 0
    failed: int = 0
    """Permanently, by their handlers."""
    cancelled: int = 0
    retried: int = 0
    snoozed: int = 0
    handed_back: int = 0
    late: int = 0
    """Of those that ended: after their lease had run out, and before anybody took them over."""
    lost: list[H] = field(default_factory=list)
    dead: list[tuple[H, str]] = field(default_factory=list)
    """Dead letters from now on, with the error of the last attempt."""
