"""A row whose last attempt took its process down runs alone, so that it takes nothing with it if it does so again."""

from __future__ import annotations

import asyncio
import time

from ..inbox.claimer import Claimer
from . import ledger as marks
from .completer import Completer
from .hands import Hands

WAIT = 10.0
"""Seconds that a worker waits for its other jobs to finish before it runs a suspect alone."""
ALONE = 10.0
"""Seconds that a suspect has the worker for itself. A long job that outlived a crash must not hold up all others."""
TRIES = 3
"""After so many waits in vain the suspect runs with company: late is better than never."""


class Solo:
    def __init__(self, claimer: Claimer, hands: Hands, completer: Completer, draining: asyncio.Event) -> None:
        self._claimer = claimer
        self._hands = hands
        self._completer = completer
        self._draining = draining
        self.wait = False
        """Do suspects wait?"""
        self._next_at = 0.0
        self._misses = 0

    @property
    def due(self) -> bool:
        return self.wait and time.monotonic() >= self._next_at

    async def run(self) -> bool:
        """Run one suspect; False when none did."""
        if not await self._quiet():
            self._misses += 1
            self._next_at = time.monotonic() + WAIT
            if self._misses < TRIES:
                return False
        at = marks.now()
        claim = await self._claimer.claim_suspect()
        self._misses = 0
        if claim is None:
            self.wait = False
            return False
        self._hands.take([claim], at)
        deadline = time.monotonic() + ALONE
        while (self._hands.waits(claim) or self._busy) and not self._draining.is_set():
            if time.monotonic() > deadline:
                self._next_at = deadline + WAIT
                break
            await asyncio.sleep(0.002)
        return True

    async def _quiet(self) -> bool:
        """Wait, claiming nothing, until nothing runs here and every ending is written."""
        deadline = time.monotonic() + WAIT
        while self._hands.held or not self._completer.idle:
            if time.monotonic() > deadline or self._draining.is_set():
                return False
            await asyncio.sleep(0.002)
        return True

    @property
    def _busy(self) -> bool:
        return self._hands.running > 0 or not self._completer.idle
