"""What an isolation process does: it claims suspects, and the next one only when the last one's ending is written.

A suspect that runs for longer than COMPANY does not kill its process at once. Its process may then take another one: a
hundred long jobs must not wait for each other, nor need a process each.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...db.link import Link, backoff
from ..leases import ledger as marks
from .loops import Claiming

IDLE = 10.0
"""Seconds without a suspect after which the process ends."""
COMPANY = 60.0
"""Seconds that a suspect has its process to itself."""
ENGAGED = 1.0
"""Seconds of work without a pause after which the process checks whether more suspects wait, and how often."""
LOOK_EVERY = 0.2


class IsolatedClaiming(Claiming):
    over: Callable[[], None]
    """Called when no suspect was found for IDLE seconds; set by the engine."""
    _busy_at = _idle_at = 0.0
    """When the process last was busy, and when it last was idle."""
    _taken_at = _asked_at = 0.0

    async def along_lanes(self) -> None:
        """Claim suspects only. In its ledger this worker is always busy, so it is never woken."""
        self._busy_at = self._idle_at = time.monotonic()
        while not self._draining.is_set():
            try:
                with self._unanswered.claim():
                    pause = await self._go_on()
                self._availability.succeeded()
            except Exception as error:
                self._availability.failed(error)
                pause = backoff(self._availability.failures)
            await self._sleep(pause)

    async def _hand_over(self, limit: int, link: Link | None = None) -> None:
        """Leave the next row of the suspect's key to others: it is an ordinary job."""
        await self.claimer.give_away(link or self._key_link)

    async def _go_on(self) -> float:
        """Take a suspect if there is room for it; return the seconds until the next poll."""
        free = not self._hands.held and self._completer.idle and not self._overloaded()
        if free and not await self._take():
            self._note_idle()
            return LOOK_EVERY
        self._busy_at = now = time.monotonic()
        if now - self._idle_at > ENGAGED and now - self._asked_at > ENGAGED:
            self._asked_at = now
            if not (self._has_room_for_company and await self._take()):
                self._ledger.set_suspects(await self.claimer.suspect_waits())
        # Poll often after a short attempt, so that the next follows at once, and less often during a long one.
        return min(0.002 + (now - self._taken_at) / 10, 0.05)

    async def _take(self) -> bool:
        at = marks.now()
        claim = await self.claimer.claim_suspect()
        if claim is None:
            return False
        self._taken_at = time.monotonic()
        self._hands.take([claim], at)
        return True

    @property
    def _has_room_for_company(self) -> bool:
        isolated_for = time.monotonic() - self._taken_at
        return isolated_for > COMPANY and self._hands.held < self._settings.concurrency and not self._overloaded()

    def _note_idle(self) -> None:
        """Note that there is nothing to do, and end the process after IDLE seconds."""
        self._idle_at = now = time.monotonic()
        self._ledger.set_suspects(False)
        if now - self._busy_at > IDLE:
            self.over()
