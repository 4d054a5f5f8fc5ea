"""The listener: one host's ears, and the flags by which producers see whether anybody sleeps.

    producer ── commit ─▶ NOTIFY ─▶ listener ─▶ as many workers that sleep as there is work for: look now
        └── tests: asleep and nobody awake? ◀── flags, held as shared advisory locks by the listener's session

Only a hint: whatever is lost here is found by polling. So the listener may be late, deaf or gone, and says so.

The flags follow what the workers' ledgers say. "Asleep" is raised at once, and lowered when nobody has slept for a
while: a worker that is called every few milliseconds keeps it up. "Awake" is raised when somebody was awake at every
look for a while, and lowered at once when a worker says that it is not. The ledgers show which are up: between its last
look and the moment in which producers can see that it wants to be called, work may have come for which nobody called,
so a worker looks often until then.

While nothing changes, nothing is sent but the probe: a notification to itself, since a LISTEN can die in silence (a
pooler, a link that is half open). A session that sends nothing for two probes is ended by the server, so that a host
that vanished leaves no flag up.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...db.database import Connection, Database
from ...db.link import backoff, translate
from ...errors import Unreachable
from ...model.availability import Availability
from ...model.occurrences import Occurrences, Part
from ..leases import ledger as marks

if TYPE_CHECKING:
    from ..leases.keeper import Kept

PROBE_EVERY = 30.0
PROBE_WITHIN = 5.0
NOBODY_SLEPT, SOMEBODY_AWAKE = 0.1, 0.05
"""Seconds for which every look must have seen so, before producers are told."""
BRISK, CALM = 0.025, 0.25
"""Seconds between two looks at the ledgers: while anything moves, and while all sleep."""
AFTERWARDS = 0.003
"""Seconds that pass after a wake-up before the listener does anything else: the worker may need the core it runs on."""

Flag = tuple[str, str]
"""A state, asleep or awake, and a queue."""


class Deaf(Exception):
    """The session answers, or seems to, and notifications do not come."""


class Listener:
    def __init__(
        self,
        database: Database,
        queues: Sequence[str],
        workers: Sequence[Kept],
        news: Callable[[], None],
        occurrences: Occurrences,
    ) -> None:
        self._database = database
        self._queues = list(queues)
        self._workers = workers
        self._news = news
        """Called when the registry has news for workers, or we for the registry."""
        self._occurrences = occurrences
        self._availability = Availability(Part.WAKE_UPS, occurrences)
        self.listening = False
        self.sessions = 0
        self.wakes = 0
        self._asleep, self._awake = _Settled(NOBODY_SLEPT), _Settled(SOMEBODY_AWAKE)
        self._up: set[Flag] = set()
        self._echo: tuple[str, asyncio.Future[None]] | None = None
        self._stirred = asyncio.Event()
        self._told = False
        """Has a worker said that its ledger has news?"""
        self._jobs = 0
        """Of which was heard, and for which nobody has been called yet."""
        self._called: list[Kept] = []
        """Who was called in the last moment."""
        self._spare = 0
        """How many more jobs those have room for."""
        self._stopped: set[Kept] = set()
        """Who stood still when it was called."""
        self._turn = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._listen()
            except Exception as error:
                translated = translate(error)
                self._availability.failed(translated if isinstance(translated, Unreachable) else error)
                deaf = isinstance(error, Deaf)
                await asyncio.sleep(PROBE_EVERY if deaf else backoff(self._availability.failures))

    async def _listen(self) -> None:
        """One session, to its end."""
        connection = await self._database.connect("listen")
        self._up = set()
        try:
            limit = f"{int(PROBE_EVERY * 2000)}ms"
            channel = await connection.fetchval(
                self._database.sql("worker/waking", "listen"), limit, timeout=PROBE_WITHIN
            )
            async with asyncio.timeout(PROBE_WITHIN):
                await connection.add_listener(channel, self._hear)
            await self._probe(connection)
            self.sessions += 1
            self._say(True)
            self._availability.succeeded()
            self._occurrences.listening(channel, again=self.sessions > 1)
            await self._attend(connection)
        finally:
            self._show(0)
            self._say(False)
            connection.terminate()

    def _say(self, listening: bool) -> None:
        if listening != self.listening:
            self.listening = listening
            self._news()

    async def _attend(self, connection: Connection) -> None:
        probe_at = time.monotonic() + PROBE_EVERY
        while not connection.is_closed():
            pause = self._watch()
            await self._set_flags(connection)
            if time.monotonic() >= probe_at:
                await self._probe(connection)
                probe_at = time.monotonic() + PROBE_EVERY
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stirred.wait()
            self._stirred.clear()
        raise Unreachable("the listener's connection ended")

    def stir(self) -> None:
        """A worker's ledger says something new: look at it now."""
        self._told = True
        self._stirred.set()

    # The flags

    def _watch(self) -> float:
        """Look at the ledgers; how long until the next look?"""
        self._stopped = {kept for kept in self._stopped if kept.stopped()}
        states = {kept.ledger.state for kept in self._workers}
        now = time.monotonic()
        told, self._told = self._told, False
        asleep, awake = bool(states & {marks.ASLEEP, marks.DEAF}), marks.AWAKE in states
        settled = [
            self._asleep.see(asleep, now, at_once=asleep),
            self._awake.see(awake, now, at_once=told and not awake),
        ]
        return CALM if all(settled) and states <= {marks.ASLEEP} else BRISK

    async def _set_flags(self, connection: Connection) -> None:
        wanted = {
            (state, queue)
            for state, up in (("asleep", self._asleep.value), ("awake", self._awake.value))
            if up
            for queue in self._queues
        }
        if wanted == self._up:
            self._show(self._flags(self._up))  # to those that are new
            return
        before = self._flags(self._up)
        self._show(self._flags(self._up & wanted) | before & marks.AWAKE_HERE)  # what is lowered is hidden first
        changes = [(*flag, True) for flag in sorted(wanted - self._up)]
        changes += [(*flag, False) for flag in sorted(self._up - wanted)]
        rows = await connection.fetch(
            self._database.sql("worker/waking", "flags"), *map(list, zip(*changes, strict=True)), timeout=PROBE_WITHIN
        )
        for state, queue, up, done in rows:
            if not up:
                self._up.discard((state, queue))
            elif done:  # else a producer was asking at that moment: next time
                self._up.add((state, queue))
        after = self._flags(self._up)
        self._show(after)
        if before & marks.AWAKE_HERE and not after:
            await self._call_others(connection)

    def _flags(self, up: set[Flag]) -> int:
        """As the ledgers show them."""
        called_for = all(("asleep", queue) in up for queue in self._queues)
        awake_here = any(state == "awake" for state, _ in up)
        return marks.CALLED_FOR * called_for | marks.AWAKE_HERE * awake_here

    def _show(self, flags: int) -> None:
        for kept in self._workers:
            kept.ledger.set_flags(flags)

    async def _call_others(self, connection: Connection) -> None:
        """Nobody is awake or asleep here any more, and producers relied on us: call whoever sleeps on other hosts."""
        await connection.fetch(self._database.sql("worker/waking", "call"), self._queues, timeout=PROBE_WITHIN)

    # Hearing

    async def _probe(self, connection: Connection) -> None:
        """Notify ourselves."""
        token = secrets.token_hex(4)
        self._echo = token, asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PROBE_WITHIN):
                await connection.fetch(self._database.sql("worker/waking", "probe"), token)
                await self._echo[1]
        except TimeoutError:
            raise Deaf(f"its own notification did not come back within {PROBE_WITHIN:g} s") from None
        finally:
            self._echo = None

    def _hear(self, connection: object, pid: int, channel: str, payload: object) -> None:
        word, rest = str(payload)[:1], str(payload)[1:]
        if word == "?":
            if self._echo is not None and self._echo[0] == rest and not self._echo[1].done():
                self._echo[1].set_result(None)
        elif word == "!":
            self._news()
        elif word == ":" and rest in self._queues:
            self._hear_of(1)
        elif word == "+":
            jobs, _, queue = rest.partition(":")
            if queue in self._queues:
                self._hear_of(int(jobs))

    def _hear_of(self, jobs: int) -> None:
        """Work came. What is heard in one read is called for together: all of it came before the looks that follow."""
        if not self._jobs:
            asyncio.get_running_loop().call_soon(self._call)
        self._jobs += jobs

    def _call(self) -> None:
        """Call as many sleepers as have room for the work that came; who was called a moment ago may have some left."""
        jobs, self._jobs = self._jobs, 0
        if not jobs:
            return
        if self._called and jobs <= self._spare:
            self._spare -= jobs
            self._called[-1].wake()  # once more: its look may have begun before this
            return
        left = jobs - self._spare
        while left > 0 and (kept := self._next_sleeper()) is not None:
            left -= max(1, kept.ledger.room_left)
            self._wake(kept)
        self._spare = max(0, -left)

    def _next_sleeper(self) -> Kept | None:
        """One that sleeps, in turn; if nobody is called yet, else one that is awake, which then looks once more."""
        self._turn += 1
        turn = self._turn % max(1, len(self._workers))
        passed = {*self._called, *self._stopped}
        workers = [kept for kept in (*self._workers[turn:], *self._workers[:turn]) if kept not in passed]
        for states in ({marks.ASLEEP}, {marks.DEAF}, {marks.AWAKE} if not self._called else set()):
            for kept in workers:
                if kept.ledger.state in states:
                    return kept
        return None

    def _wake(self, kept: Kept) -> None:
        self.wakes += 1
        if not self._called:
            asyncio.get_running_loop().call_later(AFTERWARDS, self._look_after)
        self._called.append(kept)
        kept.wake()

    def _look_after(self) -> None:
        """A moment after somebody was called: who stands still did not hear it."""
        self._stirred.set()
        stopped = {kept for kept in self._called if kept.stopped()}
        self._called.clear()
        self._spare = 0
        if stopped:
            self._stopped |= stopped
            self._hear_of(len(stopped))


class _Settled:
    """A fact, believed when all looks of so many seconds agreed on it, or at once if so asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.value = False
        self._since: float | None = None

    def see(self, value: bool, now: float, at_once: bool) -> bool:
        """Is what is seen now what is believed?"""
        if value == self.value:
            self._since = None
        elif at_once or (self._since is not None and now - self._since >= self._seconds):
            self.value, self._since = value, None
        elif self._since is None:
            self._since = now
        return value == self.value
