"""How fast work arrives, and so how to wait for more: by polling again at once, or by sleeping until woken."""

from __future__ import annotations

BRISK = 0.008
"""Seconds: a worker stays awake while jobs arrive in shorter intervals than this. Otherwise each one wakes it."""
LINGER, LOOKS = 0.05, 10
"""How long it stays awake when no more jobs arrive, in seconds and polls: a stream often pauses, and wake-ups cost the
producers something."""
NAP, CLOSE = 0.001, 0.003
"""Seconds between two polls of a worker that stays awake, or a quarter of the time between two jobs; none at all if
that is less than CLOSE, because timers are too coarse for it."""
DEAF = 0.015
"""Most seconds for which a worker ignores wake-ups after one that found nothing, so that a flood of wake-ups is not a
flood of polls. The first one in a row costs nothing: the next wake-up may be for this worker."""
FORGOTTEN = 1.0
"""Seconds after which wake-ups that found nothing are forgotten."""


class Pace:
    """Times are monotonic seconds, passed in by the caller."""

    def __init__(self) -> None:
        self._gap = FORGOTTEN
        """Recent average of the seconds between two jobs."""
        self._found_at = 0.0
        self._empty = 0
        self._misses = 0
        self._misses_at = 0.0

    def found(self, jobs: int, now: float) -> None:
        gap = min(now - self._found_at, FORGOTTEN) / jobs
        self._gap += (gap - self._gap) * (0.5 if gap * 4 < self._gap else 0.2)  # fast to notice that a stream begins
        self._found_at = now
        self._empty = 0
        self._misses = 0

    def stays_awake(self, now: float) -> bool:
        """After a poll that found nothing: is the next job so near that sleeping would cost more than polling?"""
        self._empty += 1
        return self._gap < BRISK and (self._empty < LOOKS or now - self._found_at < LINGER)

    def nap(self, now: float) -> float:
        """Seconds until the next poll of a worker that stays awake; 0: at once."""
        gap = max(self._gap, now - self._found_at)
        return 0.0 if gap < CLOSE else max(NAP, gap / 4)

    def woken_for_nothing(self, now: float) -> float:
        """Note a wake-up that found nothing; return the seconds for which to ignore others."""
        self._misses = self._misses + 1 if now - self._misses_at < FORGOTTEN else 1
        self._misses_at = now
        return 0.0 if self._misses == 1 else min(NAP * 2 ** (self._misses - 2), DEAF)
