"""How an attempt ends. Endings are values; an exception is a retry.

A handler returns a result (completed), `Snooze(delay)` (later, at no cost of an attempt) or `Fail(reason)` (never
again, by decision). Whatever it raises is a failed attempt.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .durations import Duration, seconds
from .limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Snooze:
    """Run this job again after `delay`; the attempt is given back."""

    delay: Duration

    def __post_init__(self) -> None:
        seconds(self.delay, "Snooze.delay")


@dataclass(frozen=True, slots=True)
class Fail:
    """End this job as failed. It is not retried and not a dead letter: you decided."""

    reason: str = "failed by its handler"


@dataclass(frozen=True, slots=True)
class Completed:
    result: str | None = None
    """JSON text."""


DONE = Completed()
"""As most handlers end: they return nothing."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    seconds: float


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Ended by decision: `Fail`, or a cancellation."""

    reason: str
    cancelled: bool = False

    def last_error(self, limits: Limits = DEFAULT_LIMITS) -> str:
        return trim(self.reason, limits.error_bytes)


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that raised, ran over its time, or died with its process."""

    error: str
    message: str
    trace: str = ""
    crashed: bool = field(default=False)

    def last_error(self, limits: Limits = DEFAULT_LIMITS) -> str:
        return trim(f"{self.error}: {self.message}" if self.message else self.error, limits.error_bytes)

    def record(self, limits: Limits = DEFAULT_LIMITS) -> str:
        """What is kept of this attempt, as JSON; the statement adds attempt, worker and time."""
        half = limits.error_bytes // 2
        return msgspec.json.encode(
            {"error": trim(self.error, 256), "message": trim(self.message, half), "trace": trim(self.trace, half)}
        ).decode()


@dataclass(frozen=True, slots=True)
class Released:
    """Handed back unstarted; the attempt is given back too."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is gone: nothing is written."""


Outcome = Completed | Snoozed | Abandoned | Failed | Released | Lost


def failure(error: BaseException) -> Failed:
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
    return Failed(name, message, trace)


def trim(text: str, size: int) -> str:
    """Storable and bounded: no NUL, no lone surrogates, head and tail kept when it is too long."""
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace")
    if len(clean) > size:
        half = max(size // 2 - 10, 1)
        clean = clean[:half] + b"\n[cut]\n" + clean[-half:]
    return clean.decode("utf-8", "ignore")


def outcome_of(value: Any, encode: Any) -> Outcome:
    """What a handler's return value means."""
    match value:
        case None:
            return DONE
        case Snooze(delay):
            return Snoozed(seconds(delay))
        case Fail(reason):
            return Abandoned(str(reason))
        case _:
            return Completed(encode(value))
