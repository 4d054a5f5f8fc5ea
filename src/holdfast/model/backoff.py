"""When a failed attempt is retried, and when it is not."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from ..errors import ConfigurationError
from .durations import Duration, seconds

LONGEST = 3_155_760_000.0
"""Seconds: a hundred years."""
_MOST_STEPS = 64
"""Beyond this many steps, every delay has reached its cap."""

RetryFunction = Callable[[int, BaseException], Duration | None]
"""Takes the number of the attempt and its error. Returns the delay, or None to give up."""


class Decision(NamedTuple):
    """What a policy says about a failed attempt."""

    delay: float | None
    """Seconds until the next attempt; None: the installation's backoff."""
    give_up: bool


@dataclass(frozen=True, slots=True)
class Backoff:
    """A retry policy: `@hf.task(retry=Backoff(base="5s", cap="10m", give_up=(CardExpired,)))`.

    The delay after attempt n is `base * factor ** (n - 1)`, at most `cap`, plus a random part of up to `jitter` of it.

    ```python
    class CardExpired(Exception): ...


    @hf.task(retry=Backoff(base="5s", cap="10m", give_up=(CardExpired,)))
    async def collect(order_id: int) -> None: ...
    ```
    """

    base: Duration = "2s"
    """The delay after the first attempt."""
    factor: float = 2.0
    """By which each delay is longer than the one before."""
    cap: Duration = "1h"
    """The longest delay, without the random part."""
    jitter: float = 0.25
    """The random part, at most, relative to the delay."""
    on: tuple[type[BaseException], ...] = (BaseException,)
    """Only these errors are retried; with any other, the job becomes a dead letter at once."""
    give_up: tuple[type[BaseException], ...] = ()
    """With these errors, the job becomes a dead letter at once."""
    decide: RetryFunction | None = None
    """Decides the delay instead of base, factor and cap. Those still apply if a process or a host dies: nobody can call
    a function then."""
    numbers: tuple[float, float, float, float] = field(init=False, repr=False)
    """Base, factor, cap and jitter, in seconds, as they are stored for whoever retries the job without its code."""

    def __post_init__(self) -> None:
        base, cap = seconds(self.base, "base"), seconds(self.cap, "cap")
        if base > cap:
            raise ConfigurationError(f"retry: expected base to be at most cap, got {self.base!r} and {self.cap!r}")
        checked: tuple[tuple[str, object, int, int], ...] = (
            ("factor", self.factor, 1, 100),
            ("jitter", self.jitter, 0, 10),
        )
        for name, value, low, high in checked:
            if type(value) not in (int, float) or not low <= cast(float, value) <= high:
                raise ConfigurationError(f"retry: expected {name} to be a number from {low} to {high}, got {value!r}")
        for name in ("on", "give_up"):
            given = getattr(self, name)
            errors = given if isinstance(given, tuple) else (given,)
            if not all(isinstance(error, type) and issubclass(error, BaseException) for error in errors):
                raise ConfigurationError(f"retry: expected {name} to hold exception classes, got {given!r}")
            object.__setattr__(self, name, errors)
        if self.decide is not None and not callable(self.decide):
            raise ConfigurationError(f"retry: expected decide to be a function, got {self.decide!r}")
        object.__setattr__(self, "numbers", (base, float(self.factor), cap, float(self.jitter)))

    def judge(self, attempt: int, error: BaseException) -> Decision:
        """What becomes of an attempt that ended with this error. Raises what `decide` raises."""
        if isinstance(error, self.give_up) or not isinstance(error, self.on):
            return Decision(None, give_up=True)
        if self.decide is not None:
            delay = self.decide(attempt, error)
            return Decision(None, give_up=True) if delay is None else Decision(seconds(delay, "retry"), give_up=False)
        return Decision(self.delay(attempt), give_up=False)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after this attempt."""
        base, factor, cap, jitter = self.numbers
        steps = min(max(attempt - 1, 0), _MOST_STEPS)
        return min(base * factor**steps, cap) * (1 + jitter * random.random())


def policy(retry: Backoff | RetryFunction | None) -> Backoff | None:
    """The policy that a task was declared with."""
    if retry is None or isinstance(retry, Backoff):
        return retry
    if inspect.isroutine(retry):
        return Backoff(decide=retry)
    raise ConfigurationError(f"retry: expected Backoff(…) or a function of attempt and error, got {retry!r}")
