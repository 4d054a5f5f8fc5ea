"""How an attempt ends. Endings are values; any other exception is a retry.

A handler returns a result (completed), `Snooze(delay)` (later, at no cost of an attempt) or `Fail(reason)` (failed
permanently); the last two can be raised as well. Whatever else it raises is a failed attempt.

What the worker makes of that is an `Outcome`, and each has one statement (inbox/ending.py):

    Completed       the job is archived as completed
    Ended           it is archived as failed, cancelled, expired or discarded
    AttemptFailed   it is retried later, or a dead letter
    Snoozed         it waits, and the attempt is given back
    HandedBack      others may run it now; the attempt is given back
    Lost            nothing is written: the row is another's
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from .durations import Duration, seconds
from .limits import DEFAULT_LIMITS, Limits


class _Ending(Exception):
    """Equal by value, as what a handler returns should be."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class Snooze(_Ending):
    """Run this job again after `delay`; the attempt is given back. Return it, or raise it from wherever you are.

    What a handler with a `TxContext` wrote commits if it is returned, and is rolled back if it is raised.
    """

    __match_args__ = ("delay",)

    def __init__(self, delay: Duration) -> None:
        seconds(delay, "Snooze.delay")
        super().__init__(delay)
        self.delay = delay


class Fail(_Ending):
    """End this job as failed, permanently: it is not retried, and not a dead letter. Return it, or raise it.

    What a handler with a `TxContext` wrote commits if it is returned, and is rolled back if it is raised.
    """

    __match_args__ = ("reason",)

    def __init__(self, reason: str = "failed by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Completed:
    result: str | None = None
    """JSON text."""


DONE = Completed()
"""As most handlers end: they return nothing."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    seconds: float


class Final(StrEnum):
    """What is archived of a job that did not complete."""

    FAILED = "failed"
    """Its handler returned or raised `Fail`, or returned what cannot be stored."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    """A dead letter that an operator threw away."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over, and did not complete."""

    status: Final
    reason: str

    def last_error(self, limits: Limits = DEFAULT_LIMITS) -> str:
        return trim(self.reason, limits.error_bytes)


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """It raised, ran over its time, or died with its process: the job is retried, or a dead letter."""

    error: str
    message: str
    trace: str = ""
    crashed: bool = False
    """It may have taken its process down: the next attempt runs in isolation."""
    delay: float | None = None
    """Seconds until the next attempt; None: by the backoff."""
    give_up: bool = False
    """A dead letter now, whatever attempts are left?"""

    def last_error(self, limits: Limits = DEFAULT_LIMITS) -> str:
        return trim(f"{self.error}: {self.message}" if self.message else self.error, limits.error_bytes)

    def record(self, limits: Limits = DEFAULT_LIMITS) -> str:
        """What is kept of this attempt, as JSON; the statement adds attempt, worker and time."""
        half = limits.error_bytes // 2
        return msgspec.json.encode(
            {"error": trim(self.error, 256), "message": trim(self.message, half), "trace": trim(self.trace, half)}
        ).decode()


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Not run, or not to its end: others may run it now. The attempt is given back."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is gone: nothing is written."""


Outcome = Completed | Ended | AttemptFailed | Snoozed | HandedBack | Lost


def failure(error: BaseException) -> AttemptFailed:
    """The failure as it can be stored, whatever the exception does when it is looked at."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "(its message could not be read)"
    try:
        trace = "".join(traceback.format_exception(error, limit=-20))
    except Exception:
        trace = ""
    return AttemptFailed(name, message, trace)


def trim(text: str, size: int) -> str:
    """Storable and bounded: no NUL, no lone surrogates, head and tail kept when it is too long."""
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace")
    if len(clean) > size:
        half = max(size // 2 - 10, 1)
        clean = clean[:half] + b"\n[cut]\n" + clean[-half:]
    return clean.decode("utf-8", "ignore")
