"""Durations as people write them: "90s", "5m", "1h30m", seconds, or a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

from ..errors import InvalidInput

Duration = str | int | float | timedelta
"""A number of seconds, a `timedelta`, or text such as "90s", "5m", "1h30m" or "7d"."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


LONGEST = 36_500 * 86400.0
"""A hundred years, in seconds: more than any use needs, and well within the range of dates and intervals."""


def seconds(value: Duration, field: str = "duration") -> float:
    """Return the duration in seconds; reject what is negative, infinite or not a duration."""
    number: int | float
    match value:
        case timedelta():
            number = value.total_seconds()
        case bool():
            raise InvalidInput(field, f"expected a duration such as '90s', got {value!r}")
        case int() | float():
            number = value
        case str():
            number = _parse(value, field)
        case _:
            raise InvalidInput(field, f"expected a duration such as '90s', got {value!r}")
    if not number >= 0:  # also true for NaN
        raise InvalidInput(field, f"expected a duration of zero or more, got {value!r}")
    if number > LONGEST:
        raise InvalidInput(field, f"expected a duration of at most 36500d, got {value!r}")
    return float(number)


def _parse(text: str, field: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise InvalidInput(field, f"expected a duration such as '90s', '5m' or '1h30m', got {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
