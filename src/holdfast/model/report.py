"""What became of a batch of endings."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from .job import Holding

H = TypeVar("H", bound=Holding)


class Report(msgspec.Struct, Generic[H]):
    completed: int = 0
    failed: int = 0
    """Permanently, by their handlers."""
    cancelled: int = 0
    retried: int = 0
    snoozed: int = 0
    handed_back: int = 0
    parked: int = 0
    """Instances that wait, or are run again at once."""
    late: int = 0
    """Of those that ended: after their lease had run out, and before anybody took them over."""
    lost: list[H] = msgspec.field(default_factory=list)
    expired: list[H] = msgspec.field(default_factory=list)
    """Before they could start."""
    dead: list[tuple[H, str]] = msgspec.field(default_factory=list)
    """Dead letters from now on, with the error of the last attempt."""
    stopped: list[H] = msgspec.field(default_factory=list)
    """Of the cancelled ones, those whose attempt failed after that."""
    again: list[H] = msgspec.field(default_factory=list)
    """Not written, because an application's open transaction has locked what they change: write them later."""

    def add(self, other: Report[H]) -> None:
        """Add what became of another part of the batch."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
