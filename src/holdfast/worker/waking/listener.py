"""The listener: receives wake-ups for one host, and holds the flags that show producers whether a worker sleeps.

    producer ── commit ─▶ NOTIFY ─▶ listener ─▶ as many workers that sleep as there is work for: poll now
        └── tests: asleep and none awake? ◀── flags, held as shared advisory locks by the listener's session

Wake-ups are only hints: polling finds what is lost here. So the listener may be late, deaf or gone, and reports it.

The flags follow the states in the workers' ledgers. "Asleep" is raised at once, and lowered when no worker has slept
for a while: a worker that is woken every few milliseconds keeps it up. "Awake" is raised when a worker was awake at
every look for a while, and lowered at once when a worker reports that it is not. The ledgers show which flags are up:
between a worker's last poll and the moment in which producers can see that it wants to be woken, work may have arrived
without a wake-up, so a worker polls often until then.

While nothing changes, nothing is sent except the probe: a notification to itself, because a LISTEN can fail silently (a
pooler, a half-open link). The server ends a session that sends nothing for two probes, so that a host that vanished
leaves no flag up.
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
"""Seconds for which every look must have seen this before a flag changes."""
BRISK, CALM = 0.025, 0.25
"""Seconds between two looks at the ledgers: while anything changes, and while all workers sleep."""
AFTERWARDS = 0.003
"""Seconds after a wake-up before the listener does anything else: the worker may need its CPU core."""

Flag = tuple[str, str]
"""A state, asleep or awake, and a queue."""


class Deaf(Exception):
    """The session answers, or seems to, but notifications do not arrive."""


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
        """Called when the registry has changed, or the registry should learn whether this host listens."""
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
        """Has a worker reported that its ledger has changed?"""
        self._jobs = 0
        """Jobs that were announced, and for which no worker was woken yet."""
        self._called: list[Kept] = []
        """Workers that were woken in the last moment."""
        self._spare = 0
        """For how many more jobs these have room."""
        self._stopped: set[Kept] = set()
        """Workers whose process was stopped when they were woken."""
        self._turn = 0

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self._listen()
            except Exception as error:
                translated = translate(error)
                self._availability.failed(translated if isinstance(translated, Unreachable) else error)
                deaf = isinstance(error, Deaf)
                await asyncio.sleep(PROBE_EVERY if deaf else backoff(self._availability.failures))

    async def _listen(self) -> None:
        """Run one session to its end."""
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
        """Look at the ledgers now: a worker's state has changed."""
        self._told = True
        self._stirred.set()

    # The flags

    def _watch(self) -> float:
        """Look at the ledgers; return the seconds until the next look."""
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
            self._show(self._flags(self._up))  # to new workers
            return
        before = self._flags(self._up)
        self._show(self._flags(self._up & wanted) | before & marks.AWAKE_HERE)  # a flag is hidden before it is lowered
        changes = [(*flag, True) for flag in sorted(wanted - self._up)]
        changes += [(*flag, False) for flag in sorted(self._up - wanted)]
        rows = await connection.fetch(
            self._database.sql("worker/waking", "flags"), *map(list, zip(*changes, strict=True)), timeout=PROBE_WITHIN
        )
        for state, queue, up, done in rows:
            if not up:
                self._up.discard((state, queue))
            elif done:  # otherwise a producer was just testing it: next time
                self._up.add((state, queue))
        after = self._flags(self._up)
        self._show(after)
        if before & marks.AWAKE_HERE and not after:
            await self._call_others(connection)

    def _flags(self, up: set[Flag]) -> int:
        """The flags as the ledgers show them."""
        called_for = all(("asleep", queue) in up for queue in self._queues)
        awake_here = any(state == "awake" for state, _ in up)
        return marks.CALLED_FOR * called_for | marks.AWAKE_HERE * awake_here

    def _show(self, flags: int) -> None:
        for kept in self._workers:
            kept.ledger.set_flags(flags)

    async def _call_others(self, connection: Connection) -> None:
        """Wake workers on other hosts: producers relied on this one, and none is awake or asleep here any more."""
        await connection.fetch(self._database.sql("worker/waking", "call"), self._queues, timeout=PROBE_WITHIN)

    # Hearing

    async def _probe(self, connection: Connection) -> None:
        """Notify ourselves, and wait until it arrives. Raises `Deaf`."""
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
        """Note new jobs. All of one read are handled together: they came before the polls that follow."""
        if not self._jobs:
            asyncio.get_running_loop().call_soon(self._call)
        self._jobs += jobs

    def _call(self) -> None:
        """Wake as many workers as have room for the new jobs; those woken a moment ago may have room left."""
        jobs, self._jobs = self._jobs, 0
        if not jobs:
            return
        if self._called and jobs <= self._spare:
            self._spare -= jobs
            self._called[-1].wake()  # once more: its poll may have begun before this
            return
        left = jobs - self._spare
        while left > 0 and (kept := self._next_sleeper()) is not None:
            left -= max(1, kept.ledger.room_left)
            self._wake(kept)
        self._spare = max(0, -left)

    def _next_sleeper(self) -> Kept | None:
        """The next worker that sleeps; if none was woken yet, also one that is awake, which then polls once more."""
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
            asyncio.get_running_loop().call_later(AFTERWARDS, self._check_woken)
        self._called.append(kept)
        kept.wake()

    def _check_woken(self) -> None:
        """A moment after a wake-up: wake others in place of workers whose process is stopped."""
        self._stirred.set()
        stopped = {kept for kept in self._called if kept.stopped()}
        self._called.clear()
        self._spare = 0
        if stopped:
            self._stopped |= stopped
            self._hear_of(len(stopped))


class _Settled:
    """A value that changes when all looks within `seconds` agreed on it, or at once if asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.value = False
        self._since: float | None = None

    def see(self, value: bool, now: float, at_once: bool) -> bool:
        """Note what is seen now; return whether it is the current value."""
        if value == self.value:
            self._since = None
        elif at_once or (self._since is not None and now - self._since >= self._seconds):
            self.value, self._since = value, None
        elif self._since is None:
            self._since = now
        return value == self.value
