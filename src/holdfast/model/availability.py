"""Whether the server serves one part of a worker: counts failures in a row, and reports them and their end."""

from __future__ import annotations

import time

from .occurrences import Occurrences, Outage, Part


class Availability:
    def __init__(self, part: Part, occurrences: Occurrences) -> None:
        self._part = part
        self._occurrences = occurrences
        self._since = 0.0
        self.failures = 0
        """In a row."""

    def failed(self, error: Exception, rows: int = 0) -> None:
        """Note a failed call; `rows` wait for it."""
        if not self.failures:
            self._since = time.monotonic()
        self.failures += 1
        self._occurrences.unavailable(Outage(self._part, error, self.failures, rows))

    def succeeded(self) -> None:
        """Note a call that was answered."""
        if self.failures:
            failures, self.failures = self.failures, 0
            self._occurrences.available(self._part, failures, time.monotonic() - self._since)
