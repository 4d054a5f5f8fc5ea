"""What an isolation process does: it claims suspects, and the next one only when the last one's ending is written.

One that runs for longer than COMPANY has shown that it is not what killed its last process at once. Its process may
then take another: a hundred long jobs must not wait for each other, nor need a process each.
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
"""Seconds that a suspect has its process for itself."""
ENGAGED = 1.0
"""Seconds without a pause after which the process says that more suspects wait; also between two such questions."""
LOOK_EVERY = 0.2


class IsolatedClaiming(Claiming):
    over: Callable[[], None]
    """Called when no suspect has come for a while; set by the engine."""
    _busy_at = _idle_at = 0.0
    """When there was last something to do, and when nothing."""
    _taken_at = _asked_at = 0.0

    async def along_lanes(self) -> None:
        """Suspects only; to everybody else this worker is busy, and is never woken."""
        self._busy_at = self._idle_at = time.monotonic()
        while not self._draining.is_set():
            try:
                pause = await self._go_on()
                self._availability.succeeded()
            except Exception as error:
                self._availability.failed(error)
                pause = backoff(self._availability.failures)
            await self._sleep(pause)

    async def _hand_over(self, limit: int, link: Link | None = None) -> None:
        """The next row of the suspect's key is an ordinary one, for others."""
        await self.claimer.give_away(link or self._key_link)

    async def _go_on(self) -> float:
        """Take a suspect if there is room for it; seconds until the next look."""
        free = not self._hands.held and self._completer.idle and not self._overloaded()
        if free and not await self._take():
            self._note_idle()
            return LOOK_EVERY
        self._busy_at = now = time.monotonic()
        if now - self._idle_at > ENGAGED and now - self._asked_at > ENGAGED:
            self._asked_at = now
            if not (self._has_room_for_company and await self._take()):
                self._ledger.set_suspects(await self.claimer.suspect_waits())
        # Short attempts follow each other closely; long ones are not watched closely.
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
        """There is nothing to do."""
        self._idle_at = now = time.monotonic()
        self._ledger.set_suspects(False)
        if now - self._busy_at > IDLE:
            self.over()
