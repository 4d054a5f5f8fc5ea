"""What a handler's return value, or what it raised, means for its job."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidPayload, LeaseLost
from ..model import payload
from ..model.outcome import Abandoned, Lost, Outcome, Snoozed, failure, outcome_of

BUSY_AGAIN = 1.0
"""Seconds after which a job tries again whose once() block another attempt is inside."""


class OnceBusy(Exception):
    """Another live attempt is inside the once() block."""


def returned(value: Any) -> Outcome:
    try:
        return outcome_of(value, lambda result: payload.encode_value("result", result))
    except InvalidPayload as refused:
        # Its work is done: running it again would repeat the effects and end the same way.
        return Abandoned(f"the handler finished, but what it returned cannot be stored: {refused}")


def raised(error: BaseException) -> Outcome:
    if isinstance(error, OnceBusy):
        return Snoozed(BUSY_AGAIN)
    if isinstance(error, LeaseLost):
        return Lost()
    return failure(error)
