"""How an attempt ends.

A handler returns a result (completed), `Snooze(delay)` (run again later; costs no attempt) or `Fail(reason)` (failed
permanently); the last two can also be raised. `Retry(delay)` and any other exception are failed attempts.

What the worker makes of that is an `Outcome` (written by inbox/ending.py):

    Completed       the job is archived as completed
    Ended           it is archived as failed, cancelled, expired or discarded
    AttemptFailed   it is retried later, or a dead letter
    Snoozed         it waits, and the attempt is given back; if that was once too often, the attempt has failed
    HandedBack      other workers may run it now; the attempt is given back
    Lost            nothing is written: another worker owns the row
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from .durations import Duration, seconds
from .grouping import group_of, place_of
from .limits import DEFAULT_LIMITS, Limits


class _Ending(Exception):
    """Equal by value, like anything that a handler returns."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class Snooze(_Ending):
    """Run this job again after `delay`; the attempt is given back. Return it or raise it.

    What a handler with a `TxContext` wrote commits if it is returned, and is rolled back if it is raised.

    ```python
    @hf.task
    async def wait_for_bank(transfer: int) -> Snooze | None:
        return Snooze("10m") if transfer > 0 else None
    ```
    """

    __match_args__ = ("delay",)
    gives_attempt_back = True  # so it cannot replace a handler's error; see `middleware`

    def __init__(self, delay: Duration) -> None:
        seconds(delay, "Snooze.delay")
        super().__init__(delay)
        self.delay = delay
        """Until it runs again."""


class Fail(_Ending):
    """End this job as failed, permanently: it is not retried, and not a dead letter. Return it or raise it.

    What a handler with a `TxContext` wrote commits if it is returned, and is rolled back if it is raised.

    ```python
    @hf.task
    async def refund(order_id: int) -> None:
        if order_id < 0:
            raise Fail("there is no such order")
    ```
    """

    __match_args__ = ("reason",)

    def __init__(self, reason: str = "failed by its handler") -> None:
        super().__init__(reason)
        self.reason = reason
        """Kept with the job."""


class Retry(_Ending):
    """Fail this attempt, and run the next one after exactly `delay`. Raise it; it costs an attempt.

    What a handler with a `TxContext` wrote is rolled back. Without attempts left, the job becomes a dead letter.

    ```python
    @hf.task
    async def ask_partner(order_id: int) -> None:
        raise Retry("30s", "the partner answered 429")
    ```
    """

    __match_args__ = ("delay", "reason")

    def __init__(self, delay: Duration, reason: str = "the handler asked for a retry") -> None:
        seconds(delay, "Retry.delay")
        super().__init__(delay, reason)
        self.delay = delay
        """Until the next attempt."""
        self.reason = reason
        """Kept with the job, as the error of this attempt."""


class Completed(msgspec.Struct, frozen=True):
    result: str | None = None
    """JSON text."""


DONE = Completed()
"""The usual ending: most handlers return nothing."""


class Snoozed(msgspec.Struct, frozen=True):
    seconds: float
    counted: bool = False
    """Did the handler ask for it? A job may be snoozed so often only (`max_snoozes`)."""


class Final(StrEnum):
    """What is archived of a job that did not complete."""

    FAILED = "failed"
    """Its handler returned or raised `Fail`."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    """An operator discarded the dead letter."""


class Ended(msgspec.Struct, frozen=True):
    """The job is over, and did not complete."""

    status: Final
    reason: str

    def last_error(self, limits: Limits = DEFAULT_LIMITS) -> str:
        return trim(self.reason, limits.error_bytes)


class AttemptFailed(msgspec.Struct, frozen=True):
    """It raised, timed out, or died with its process: the job is retried, or becomes a dead letter."""

    error: str
    message: str
    trace: str = ""
    place: str = ""
    """Where the application raised it, as 'module:function'."""
    crashed: bool = False
    """It may have killed its process: the next attempt runs in isolation."""
    delay: float | None = None
    """Seconds until the next attempt; None: the backoff decides."""
    give_up: bool = False
    """Make it a dead letter now, even if it has attempts left?"""
    details: Mapping[str, str | int | float] | None = None
    """What else is kept of this attempt."""
    cause: BaseException | None = None
    """What was raised, for the log. It keeps the handler's frames alive, so it is dropped as soon as it is logged.
    It does not count when two are compared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttemptFailed) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    def __repr__(self) -> str:
        names = [name for name in self.__struct_fields__ if name != "cause"]
        return f"AttemptFailed({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name != "cause")

    def last_error(self, limits: Limits = DEFAULT_LIMITS) -> str:
        return trim(f"{self.error}: {self.message}" if self.message else self.error, limits.error_bytes)

    def record(self, limits: Limits = DEFAULT_LIMITS, kind: str | None = None) -> str:
        """What is kept of this attempt, as JSON; the statement adds attempt, worker and time, and without `kind`, the
        error group."""
        half = limits.error_bytes // 2
        kept: dict[str, object] = {
            "error": trim(self.error, 256), "message": trim(self.message, half), "trace": trim(self.trace, half)
        }  # fmt: skip
        if self.place:
            kept["place"] = trim(self.place, 256)
        if kind is not None:
            kept["group"] = group_of(kind, self.error, self.place, self.message)
        if self.details:
            kept["details"] = self.details
        return msgspec.json.encode(kept).decode()


class HandedBack(msgspec.Struct, frozen=True):
    """It did not run, or not to its end: other workers may run it now. The attempt is given back."""


class Lost(msgspec.Struct, frozen=True):
    """The lease is gone: nothing is written."""


Outcome = Completed | Ended | AttemptFailed | Snoozed | HandedBack | Lost


def failure(error: BaseException) -> AttemptFailed:
    """The failure in a form that can be stored, even if the exception cannot be printed."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "(its message could not be read)"
    try:
        trace = "".join(traceback.format_exception(error, limit=-20))
    except Exception:
        trace = ""
    return AttemptFailed(name, message, trace, place_of(error), cause=error)


def unstorable(what: str, refused: Exception) -> AttemptFailed:
    """The failure of a handler or a workflow whose result cannot be stored.

    Its work is done: a retry would repeat the effects and end the same way.
    """
    message = f"the {what} finished, but its result cannot be stored: {refused}; it is not retried"
    return AttemptFailed("UnstorableResult", message, give_up=True)


def trim(text: str, size: int) -> str:
    """Storable and bounded: no NUL, no lone surrogates, head and tail kept when it is too long."""
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace")
    if len(clean) > size:
        half = max(size // 2 - 10, 1)
        clean = clean[:half] + b"\n[cut]\n" + clean[-half:]
    return clean.decode("utf-8", "ignore")
