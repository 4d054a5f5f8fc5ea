"""Numbers with their nouns, as people read them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return such as 1 event, or 1,200 events."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
