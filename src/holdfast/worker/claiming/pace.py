"""How fast work arrives, and so how to wait for more: by looking again at once, or by sleeping until called."""

from __future__ import annotations

BRISK = 0.008
"""Seconds: a worker stays awake for jobs that come closer together than this. Others are worth a call each."""
LINGER, LOOKS = 0.05, 10
"""It stays awake for so many seconds and looks when no more come: a stream often stumbles, and being called costs every
producer something."""
NAP, THICK = 0.001, 0.003
"""Seconds between two looks of a worker that stays awake, or a quarter of the time between two jobs; none at all when
that is less than THICK, since timers are too coarse for it."""
DEAF = 0.015
"""Most seconds for which a worker that was called in vain does not hear, so that a flood of calls is no flood of looks.
The first one of a row costs nothing, since the next call may be for it."""
FORGOTTEN = 1.0
"""Seconds after which calls in vain are forgotten."""


class Pace:
    """Times are monotonic seconds, handed in by whoever asks."""

    def __init__(self) -> None:
        self._gap = FORGOTTEN
        """Seconds between two jobs, lately."""
        self._found_at = 0.0
        self._empty = 0
        self._vain = 0
        self._vain_at = 0.0

    def found(self, jobs: int, now: float) -> None:
        gap = min(now - self._found_at, FORGOTTEN) / jobs
        self._gap += (gap - self._gap) * (0.5 if gap * 4 < self._gap else 0.2)  # quick to notice that a stream begins
        self._found_at = now
        self._empty = 0
        self._vain = 0

    def stays_awake(self, now: float) -> bool:
        """A look found nothing. Is the next job so near that sleeping would cost more than looking?"""
        self._empty += 1
        return self._gap < BRISK and (self._empty < LOOKS or now - self._found_at < LINGER)

    def nap(self, now: float) -> float:
        """Seconds until the next look of a worker that stays awake; 0: at once."""
        gap = max(self._gap, now - self._found_at)
        return 0.0 if gap < THICK else max(NAP, gap / 4)

    def in_vain(self, now: float) -> float:
        """A call brought nothing; seconds for which to hear no other."""
        self._vain = self._vain + 1 if now - self._vain_at < FORGOTTEN else 1
        self._vain_at = now
        return 0.0 if self._vain == 1 else min(NAP * 2 ** (self._vain - 2), DEAF)
