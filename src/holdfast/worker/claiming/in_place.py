"""Suspects inside an application, where no supervisor starts isolation processes: isolated, if only for a moment.

All other work waits for that. So every wait is short, and other work gets at least as much time afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ...inbox.claimer import Claimer
from ..attempts.completer import Completer
from ..leases import ledger as marks
from .taker import Taker

LEAVE = 5.0
"""Seconds for which suspects are left to isolation processes of other hosts, where they risk no other job."""
QUIET = 1.0
"""Most seconds that a worker waits for its other jobs to finish before it runs a suspect in isolation."""
ISOLATED = 1.0
"""Most seconds that a suspect has the worker to itself. A long job must not hold up all others."""
TRIES = 3
"""Unsuccessful waits after which the suspect runs beside other jobs: late is better than never."""


class InPlace:
    def __init__(self, claimer: Claimer, hands: Taker, completer: Completer, draining: asyncio.Event) -> None:
        self._claimer = claimer
        self._hands = hands
        self._completer = completer
        self._draining = draining
        self.isolating = False
        """Is a suspect about to run, or running? Then nothing else may be claimed."""
        self._since: float | None = None
        """When suspects were first seen."""
        self._next_at = 0.0
        self._misses = 0

    def see(self, wait: bool) -> None:
        """Note whether suspects wait."""
        if not wait:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()

    @property
    def due(self) -> bool:
        return self._since is not None and time.monotonic() >= max(self._since + LEAVE, self._next_at)

    async def run(self, handing_over: Callable[[], bool]) -> None:
        """Run one suspect, if it can be isolated; `handing_over`: is the next row of a key being claimed?"""
        began = time.monotonic()
        self.isolating = True
        try:
            if await self._quiet(handing_over):
                await self._run_one()
        finally:
            self.isolating = False
            now = time.monotonic()
            self._next_at = now + (now - began)

    async def _quiet(self, handing_over: Callable[[], bool]) -> bool:
        """Wait until nothing runs here and every ending is written. True also after the last unsuccessful wait."""
        deadline = time.monotonic() + QUIET
        while self._hands.held or not self._completer.idle or handing_over():
            if self._draining.is_set():
                return False
            if time.monotonic() > deadline:
                self._misses += 1
                return self._misses >= TRIES
            await asyncio.sleep(0.002)
        return True

    async def _run_one(self) -> None:
        at = marks.now()
        claim = await self._claimer.claim_suspect()
        self._misses = 0
        if claim is None:
            self._since = None
            return
        self._hands.take([claim], at)
        deadline = time.monotonic() + ISOLATED
        while self._hands.held or not self._completer.idle:
            if time.monotonic() > deadline or self._draining.is_set():
                return
            await asyncio.sleep(0.002)
