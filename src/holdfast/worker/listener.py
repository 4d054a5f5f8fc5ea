"""The listener: one host's ears, and the flags by which producers see whether anybody sleeps.

    producer ── commit ─▶ NOTIFY ─▶ listener ─▶ one worker that sleeps: look now
        └── tests: asleep and nobody awake? ◀── flags, held as shared advisory locks by the listener's session

Only a hint: whatever is lost here is found by polling. So the listener may be late, deaf or gone, and says so.

A flag follows what the workers' ledgers say when every look for SETTLED seconds has found the same. What flickers may
be met in the same phase a few times, and cost a statement that was not needed. While nothing changes, nothing is sent
but the probe: a notification to itself, since a LISTEN can die in silence (a pooler, a link that is half open). A
session that sends nothing for two probes is ended by the server, so that a host that vanished leaves no flag up.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..db.database import Connection, Database
from ..db.link import backoff, translate
from ..errors import Unreachable
from . import ledger as marks

if TYPE_CHECKING:
    from .keeper import Kept

log = logging.getLogger("holdfast.listener")

PROBE_EVERY = 30.0
PROBE_WITHIN = 5.0
SETTLED = 0.05
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
        self, database: Database, queues: Sequence[str], workers: Sequence[Kept], news: Callable[[], None]
    ) -> None:
        self._database = database
        self._queues = list(queues)
        self._workers = workers
        self._news = news
        """Called when the registry has news for workers, or we for the registry."""
        self.listening = False
        self.sessions = 0
        self.wakes = 0
        self._asleep, self._awake = _Settled(), _Settled()
        self._up: set[Flag] = set()
        self._echo: tuple[str, asyncio.Future[None]] | None = None
        self._stirred = asyncio.Event()
        self._called = False
        self._turn = 0

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            before = self.sessions
            try:
                await self._listen()
            except Exception as error:
                failures = 1 if self.sessions > before else failures + 1
                self._complain(error, failures)
                await asyncio.sleep(PROBE_EVERY if isinstance(error, Deaf) else backoff(failures))

    def _complain(self, error: Exception, failures: int) -> None:
        translated = translate(error)
        if isinstance(error, Deaf):
            log.warning("LISTEN is deaf: %s; polling goes on, trying again in %g s", error, PROBE_EVERY)
        elif not isinstance(translated, Unreachable):
            log.error("cannot listen for wake-ups; polling goes on, trying again", exc_info=error)
        elif failures == 1:
            log.warning("no wake-ups for now: %s; polling goes on, trying again", translated)

    async def _listen(self) -> None:
        """One session, to its end."""
        connection = await self._database.connect("listen")
        self._up = set()
        try:
            limit = f"{int(PROBE_EVERY * 2000)}ms"
            channel = await connection.fetchval(self._database.sql("worker", "listen"), limit, timeout=PROBE_WITHIN)
            async with asyncio.timeout(PROBE_WITHIN):
                await connection.add_listener(channel, self._hear)
            await self._probe(connection)
            self.sessions += 1
            self._say(True)
            log.info("listening for wake-ups on %s%s", channel, " again" if self.sessions > 1 else "")
            await self._attend(connection)
        finally:
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

    # The flags

    def _watch(self) -> float:
        """Look at the ledgers; how long until the next look?"""
        states = {kept.ledger.state for kept in self._workers}
        now = time.monotonic()
        settled = [self._asleep.see(marks.ASLEEP in states, now), self._awake.see(marks.AWAKE in states, now)]
        return CALM if all(settled) and states <= {marks.ASLEEP} else BRISK

    async def _set_flags(self, connection: Connection) -> None:
        wanted = {
            (state, queue)
            for state, up in (("asleep", self._asleep.value), ("awake", self._awake.value))
            if up
            for queue in self._queues
        }
        if wanted == self._up:
            return
        changes = [(*flag, True) for flag in sorted(wanted - self._up)]
        changes += [(*flag, False) for flag in sorted(self._up - wanted)]
        rows = await connection.fetch(
            self._database.sql("worker", "flags"), *map(list, zip(*changes, strict=True)), timeout=PROBE_WITHIN
        )
        for state, queue, up, done in rows:
            if not up:
                self._up.discard((state, queue))
            elif done:  # else a producer was asking at that moment: next time
                self._up.add((state, queue))

    # Hearing

    async def _probe(self, connection: Connection) -> None:
        """Notify ourselves."""
        token = secrets.token_hex(4)
        self._echo = token, asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PROBE_WITHIN):
                await connection.fetch(self._database.sql("worker", "probe"), token)
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
        elif rest in self._queues and not self._called:
            # Many in one read are one wake-up: all of them were committed before the look that follows.
            self._called = True
            asyncio.get_running_loop().call_soon(self._heard)
            self._wake_one()

    def _heard(self) -> None:
        self._called = False

    def _wake_one(self, *asked: Kept) -> None:
        """One that sleeps, in turn; else one that is awake, which then looks once more."""
        self._turn += 1
        turn = self._turn % max(1, len(self._workers))
        workers = [kept for kept in (*self._workers[turn:], *self._workers[:turn]) if kept not in asked]
        for state in (marks.ASLEEP, marks.AWAKE):
            for kept in workers:
                if kept.ledger.state == state:
                    self.wakes += 1
                    kept.wake()
                    asyncio.get_running_loop().call_later(AFTERWARDS, self._look_after, kept, asked)
                    return

    def _look_after(self, woken: Kept, asked: tuple[Kept, ...]) -> None:
        self._stirred.set()
        if woken.stopped():  # it did not hear
            self._wake_one(*asked, woken)


class _Settled:
    """A fact, believed when all looks of SETTLED seconds agreed on it."""

    def __init__(self) -> None:
        self.value = False
        self._since: float | None = None

    def see(self, value: bool, now: float) -> bool:
        """Is what is seen now what is believed?"""
        if value == self.value:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= SETTLED:
            self.value, self._since = value, None
        return value == self.value
