"""Times and spans of time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

NEVER = 2100
"""From this year on, a time means "never": instances without a timer are parked for 100 years."""


def moment(at: datetime) -> str:
    """Return a time as people read it: in UTC, which the letter Z says."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def span(seconds: float) -> str:
    """Return a span of time in the units that people would use: 40 ms, 3.2 s, 5 m 20 s, 2 d 3 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, smaller, inner in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {inner}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
