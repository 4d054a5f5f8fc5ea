"""When a delivery that failed is sent again."""

from __future__ import annotations

import random

DELAYS = (5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)
"""5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 hours: about three days in all."""
ATTEMPTS = len(DELAYS) + 1
JITTER = 0.2
LONGEST_RETRY_AFTER = 86400.0
GIVES_UP_AFTER = 5 * 86400.0
"""Seconds without a success after which an endpoint is disabled."""


def delay(attempt: int, retry_after: float | None = None) -> float:
    """Seconds after this failed attempt, from 1. A server may ask for more time, not for less."""
    planned = DELAYS[min(max(attempt, 1), len(DELAYS)) - 1]
    if retry_after is not None:
        planned = max(planned, min(retry_after, LONGEST_RETRY_AFTER))
    return planned * (1 + JITTER * random.random())
