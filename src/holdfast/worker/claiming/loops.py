"""Claiming, in two loops: along the lanes, as many rows as there is room for; and through the ordered keys whose row
has just ended here.

With nothing to do, a worker sleeps until it is woken, or for `poll_max`. It sleeps that long only if producers could
see, before its last poll, that it wants to be woken: jobs from before that were found by the poll, and later ones wake
it. Until then it polls often. While jobs arrive in quick succession it stays awake, and needs no wake-ups.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ...db.link import Link, backoff
from ...errors import Contended, Unreachable
from ...inbox.claimer import Claimer
from ...model.availability import Availability
from ...model.job import Claim
from ...model.occurrences import Occurrences, Part
from ...ownership.shares import Shares
from ..attempts.completer import Completer
from ..attempts.hands import UNWRITTEN
from ..leases import ledger as marks
from ..leases.ledger import Ledger
from ..settings import WorkerSettings
from .in_place import InPlace
from .pace import Pace
from .taker import Taker
from .unanswered import Unanswered

BACKLOG = 3
"""Full claims after which more is claimed than there are free hands: a few jobs should go to all workers that sleep."""
COMMIT = 0.025
"""Seconds after which a commit that was in progress when the worker fell asleep, and did not wake it, is done."""
FLOWS = 0.2
"""Seconds after a hand-over without enough room, for which a worker does not sleep long: the rows that it left are in
the lanes again, and there is no wake-up for that."""
OCCUPIED = 0.02
"""Seconds after which a worker without room tells the listener: it does not count as awake any more."""

ROOM_AGAIN = 1.0
"""Seconds after which a worker without room checks again, even if it was not notified."""


class Claiming:
    def __init__(
        self,
        claimer: Claimer,
        shares: Shares,
        links: tuple[Link, Link],
        hands: Taker,
        completer: Completer,
        settings: WorkerSettings,
        ledger: Ledger,
        occurrences: Occurrences,
        draining: asyncio.Event,
        unanswered: Unanswered,
        post: int = 0,
    ) -> None:
        self.claimer = claimer
        self.shares = shares
        self._link, self._key_link = links
        """The second one connects when the first ordered row has ended."""
        self._hands = hands
        self._completer = completer
        self._settings = settings
        self._ledger = ledger
        self._post = ledger.post(post)
        self._availability = Availability(Part.CLAIM, occurrences)
        self._key_availability = Availability(Part.HAND_OVER, occurrences)
        self._draining = draining
        self._unanswered = unanswered
        self._booked = 0
        """Rows that claims in progress may bring."""
        self.in_place: InPlace | None = None
        """Runs suspects between other jobs; None where isolation processes run them."""
        self._handing_over = False
        self._left_over_at = 0.0
        """When a hand-over last lacked room."""
        self._vacant = asyncio.Event()
        """Set when an ordered row has ended here: its key may have a next one."""
        self.woken = asyncio.Event()
        self._pace = Pace()
        self._unseen = True
        """Was there a moment, since its last long sleep, in which producers could not see that it wants wake-ups?"""
        self._full = 0
        """How many claims, since one found nothing, saw as many rows as they could or brought enough for all hands;
        plus the hand-overs that brought rows."""
        self._pause = settings.poll_min
        self.stir: Callable[[], None] = lambda: None
        """Tell the listener that the ledger has changed; set by the owner of the engine."""

    def vacate(self, claim: Claim) -> None:
        """Note that this row of an ordered key has ended here."""
        self.claimer.vacate(claim)
        self._vacant.set()
        if self._many_vacated:
            self.woken.set()

    @property
    def _many_vacated(self) -> bool:
        """Are there more keys to hand over than one link can do in time?"""
        return self.claimer.vacated > self._settings.batch // 2

    def drain(self) -> None:
        """Let the loops see that `draining` is set."""
        self._hands.demand.set()
        self._vacant.set()
        self.woken.set()

    async def give_away_vacated(self) -> None:
        """Leave the next rows of vacated keys to others: this worker claims no more."""
        with suppress(Unreachable, Contended):
            if self.claimer.vacated > 0:
                await self._hand_over(0)

    # Along the lanes

    async def along_lanes(self) -> None:
        while not self._draining.is_set():
            want = self._want()
            if want <= 0:
                await self._wait_demand()
                continue
            called, reachable = self.woken.is_set(), self._post.reachable
            self.woken.clear()
            self._post.note_poll()
            try:
                with self._unanswered.claim():
                    found = await self._claim(want)
            except Exception as error:
                self._availability.failed(error)
                self._post.set_state(marks.BUSY)
                await self._sleep(backoff(self._availability.failures))
                continue
            self._availability.succeeded()
            if found:
                self._post.set_state(marks.AWAKE, room=want)
            else:
                await self._rest(want, called, reachable)
        self._post.set_state(marks.BUSY)

    async def _claim(self, want: int) -> bool:
        """Claim up to `want` rows. False if there is nothing to do now."""
        if self.in_place is not None and self.in_place.due:
            await self.in_place.run(lambda: self._handing_over)
        if self._draining.is_set():
            return False
        if self._many_vacated:
            await self._hand_over(self._room, self._link)
            return True
        at = marks.now()
        self.claimer.own(await self.shares.owned(self.claimer.owned))
        with self._booking(want):
            batch = await self.claimer.claim(want)
        if batch.suspects is not None:
            self._note_suspects(batch.suspects)
        self._full += batch.full or len(batch.claims) >= self._settings.concurrency
        if batch.claims:
            self._pace.found(len(batch.claims), time.monotonic())
            self._pause = self._settings.poll_min
        if len(batch.claims) >= self._settings.concurrency:
            self._hands.take_soon(batch.claims, at)  # and send the next claim first: the server works in parallel
        elif batch.claims:
            self._hands.take(batch.claims, at)
            await asyncio.sleep(0)  # few rows: their handlers start before the next poll
        if self.claimer.vacated:
            self._vacant.set()
        return bool(batch.claims) or batch.more

    def _note_suspects(self, wait: bool) -> None:
        if self.in_place is not None:
            self.in_place.see(wait)
        else:
            self._ledger.set_suspects(wait)

    def _want(self) -> int:
        """How many rows to claim now; 0 while there is not enough room for a round trip to pay off."""
        if self._overloaded() or self._hands.closed:
            return 0
        vacated = self.claimer.vacated  # each may hand over one row during this claim
        held = self._hands.held - self._hands.lent + vacated + self._booked
        ahead = self._hands.ahead if self._full >= BACKLOG else 0
        room = min(self._settings.concurrency + ahead - held, self._settings.batch, self._room - vacated)
        return room if room >= max(1, ahead // 2) or not self._hands.waiting else 0

    @property
    def _room(self) -> int:
        """For how many more rows the ledger has room, beside those that claims in progress may bring."""
        return self._ledger.room

    @contextmanager
    def _booking(self, rows: int) -> Iterator[None]:
        """Reserve room for this number of rows."""
        self._booked += rows
        self._ledger.reserved += rows
        try:
            yield
        finally:
            self._booked -= rows
            self._ledger.reserved -= rows

    def _overloaded(self) -> bool:
        """Are too many endings unwritten, or is the keeper late, so that new claims would not be renewed?"""
        return self._completer.backlog >= UNWRITTEN or self._keeper_late()

    def _keeper_late(self) -> bool:
        """Has the keeper not beaten for two thirds of a lease?"""
        beat = self._ledger.beat
        return beat != 0 and marks.now() - beat > self._settings.renew_every * 2e9

    # Through the keys

    async def through_keys(self) -> None:
        """Claim the next rows of the keys whose row has ended here."""
        while not self._draining.is_set():
            await self._vacant.wait()
            self._vacant.clear()
            while self.claimer.vacated > 0 and not self._draining.is_set():
                try:
                    # One row has ended for each that may come, so there is room; claims along the lanes leave it.
                    busy = self._overloaded() or self._isolating or self._hands.closed
                    with self._unanswered.claim():
                        await self._hand_over(0 if busy else self._room)
                    self._key_availability.succeeded()
                    if self.claimer.locked_out:  # others have these keys locked, for the moment of a claim
                        await asyncio.sleep(self._settings.poll_min)
                except Exception as error:
                    self._key_availability.failed(error)
                    await asyncio.sleep(backoff(self._key_availability.failures))

    async def _hand_over(self, limit: int, link: Link | None = None) -> None:
        at = marks.now()
        most = max(0, min(limit, self.claimer.vacated))
        if most < self.claimer.vacated:
            self._left_over_at = time.monotonic()
            self._pause = self._settings.poll_min
        self._handing_over = True
        try:
            with self._booking(most):
                claims = await self.claimer.hand_over(link or self._key_link, most)
            self._hands.take(claims, at)
            self._full += bool(claims)
        finally:
            self._handing_over = False
            self._hands.demand.set()  # the room of keys without a next row is free for the lanes

    @property
    def _isolating(self) -> bool:
        """Is a suspect about to run here, or running, in isolation?"""
        return self.in_place is not None and self.in_place.isolating

    # Waiting

    async def _rest(self, room: int, called: bool, reachable: bool) -> None:
        """Wait after a poll that found nothing. `called`: a wake-up caused it; `reachable`: one could have come."""
        self._full = 0
        now = time.monotonic()
        if self._pace.stays_awake(now):
            nap = self._pace.nap(now)
            self._post.set_state(marks.AWAKE, nap, room)
            await (self._doze(nap) if nap else asyncio.sleep(0))
            return
        if called and (deaf := self._pace.woken_for_nothing(now)):  # another worker was faster, or it is not for us
            self._post.set_state(marks.DEAF, deaf, room)
            await self._sleep(deaf)
        nap = self._nap(reachable) * random.uniform(0.75, 1.25)
        self._post.set_state(marks.ASLEEP, nap, room)
        if not self._post.reachable:
            self.stir()
        if await self._doze(nap):
            self._pause = min(self._pause * 1.5, self._settings.poll_max)

    def _nap(self, reachable: bool) -> float:
        if time.monotonic() - self._left_over_at < FLOWS:
            return self._pause
        if not reachable:
            self._unseen = True
            return self._pause
        if self._unseen:
            self._unseen = False
            return min(COMMIT, self._settings.poll_max)
        return self._settings.poll_max

    async def _wait_demand(self) -> None:
        self._hands.demand.clear()
        self._post.set_state(marks.BUSY)
        for seconds in (OCCUPIED, ROOM_AGAIN):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hands.demand.wait()
                return
            if self._post.awake_here:
                self.stir()

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def _doze(self, seconds: float) -> bool:
        """As `_sleep`, but a wake-up ends it. True if it was not woken."""
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            return True
        return False
