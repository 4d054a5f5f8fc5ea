"""Requests that were rejected: counted, and logged at a bounded rate. There may be as many as an attacker likes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter

from ..errors import Rejected

log = logging.getLogger("holdfast.receiving")

LOG_EVERY = 10.0
"""Seconds between two lines about the requests of one source."""
NEVER = float("-inf")
SOURCES = 100
OTHERS = "(others)"
"""The name under which sources are counted and logged when there are more than SOURCES."""


class Rejections:
    """Those of one source, on any number of event loops."""

    def __init__(self, source: str) -> None:
        self.counts: Counter[int] = Counter()
        """How many there were, by the status of the answer."""
        self._source = source
        self._unlogged: Counter[int] = Counter()
        self._logged = NEVER
        self._timer = NEVER
        """When the rest will be logged, if the event loop that is to do it still runs then."""
        self._lock = threading.Lock()

    def record(self, rejected: Rejected) -> None:
        """Count it, and log it now or, with the others, some seconds later."""
        with self._lock:
            self.counts[rejected.status] += 1
            self._unlogged[rejected.status] += 1
        self._log(rejected.reason)

    def _log(self, reason: str) -> None:
        with self._lock:
            if not self._unlogged:  # another thread was faster
                return
            now, due = time.monotonic(), self._logged + LOG_EVERY
            if now < due:
                if self._timer < due:
                    self._timer = due
                    asyncio.get_running_loop().call_later(due - now, self._log_rest, reason)
                return
            self._logged = now
            unlogged, self._unlogged = self._unlogged, Counter()
        total = unlogged.total()
        counts = ", ".join(f"{number} with {status}" for status, number in sorted(unlogged.items()))
        log.warning(
            "source %s: rejected %s request%s (%s); %.300s", self._source, total, "s" * (total != 1), counts,
            reason if total == 1 else f"one of them: {reason}",
        )  # fmt: skip

    def _log_rest(self, reason: str) -> None:
        self._timer = NEVER
        self._log(reason)


def of(source: str, by_source: dict[str, Rejections]) -> Rejections:
    """Those of this source. An application may take its name from the request: then a sender can invent any number."""
    if source not in by_source and len(by_source) >= SOURCES:
        source = OTHERS
    return by_source.setdefault(source, Rejections(source))
