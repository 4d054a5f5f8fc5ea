"""The listener: receives wake-ups for one host, and holds the flags that show producers whether a worker sleeps.

    producer ── commit ─▶ NOTIFY ─▶ listener ─▶ as many workers that sleep as there is work for: poll now
        └── tests: asleep and none awake? ◀── flags, held as shared advisory locks by the listener's session

Wake-ups are only hints: polling finds what is lost here. So the listener may be late, deaf or gone, and reports it.

There is a post for each claim loop of a worker: its jobs, and each of its routes (posts.py). The flags of a post's
queues follow the states in the workers' ledgers. "Asleep" is raised at once, and lowered when no worker has slept
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
from .posts import Flag, Post

if TYPE_CHECKING:
    from ..leases.keeper import Kept

PROBE_EVERY = 30.0
PROBE_WITHIN = 5.0
BRISK, CALM = 0.025, 0.25
"""Seconds between two looks at the ledgers: while anything changes, and while all workers sleep."""
COMMIT = 0.025
"""Seconds after which a commit that was in progress when "awake" was lowered is done."""


class Deaf(Exception):
    """The session answers, or seems to, but notifications do not arrive."""


class Listener:
    def __init__(
        self,
        database: Database,
        posts: Sequence[Sequence[str]],
        workers: Sequence[Kept],
        news: Callable[[], None],
        occurrences: Occurrences,
    ) -> None:
        """`posts`: the queues of each."""
        self._database = database
        self._stirred = asyncio.Event()
        self._posts = [Post(number, queues, workers, self._stirred.set) for number, queues in enumerate(posts)]
        self._news = news
        """Called when the registry has changed, or the registry should learn whether this host listens."""
        self._occurrences = occurrences
        self._availability = Availability(Part.WAKE_UPS, occurrences)
        self.listening = False
        self.sessions = 0
        self._up: set[Flag] = set()
        self._echo: tuple[str, asyncio.Future[None]] | None = None
        self._told = False
        """Has a worker reported that its ledger has changed?"""

    @property
    def wakes(self) -> int:
        """How often a worker was woken."""
        return sum(post.wakes for post in self._posts)

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
            for post in self._posts:
                post.show(0)
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
        told, self._told = self._told, False
        calm = [post.watch(told) for post in self._posts]
        return CALM if all(calm) else BRISK

    async def _set_flags(self, connection: Connection) -> None:
        wanted = {flag for post in self._posts for flag in post.wanted}
        if wanted == self._up:
            for post in self._posts:
                post.show(post.flags(self._up))  # to new workers
            return
        before = [post.flags(self._up) for post in self._posts]
        for post, flags in zip(self._posts, before, strict=True):  # a flag is hidden before it is lowered
            post.show(post.flags(self._up & wanted) | flags & marks.AWAKE_HERE)
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
        for post, flags in zip(self._posts, before, strict=True):
            after = post.flags(self._up)
            post.show(after)
            if flags & marks.AWAKE_HERE and not after & marks.AWAKE_HERE:
                # Producers notified nobody while it was up, and the workers may all sleep by then: between two looks at
                # the ledgers, a worker can fall asleep, and so read its flags before this one was raised.
                asyncio.get_running_loop().call_later(COMMIT, post.hear_of, 1)
                if post.let_down:
                    post.hear_of(1)  # this session does not see its own flags, so the call does not reach this host
                    await self._call_others(connection, post)

    async def _call_others(self, connection: Connection, post: Post) -> None:
        """Wake workers on other hosts: producers relied on one here that does not poll any more."""
        await connection.fetch(self._database.sql("worker/waking", "call"), post.queues, timeout=PROBE_WITHIN)

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
        elif word == ":":
            self._hear_of(rest, 1)
        elif word == "+":
            jobs, _, queue = rest.partition(":")
            self._hear_of(queue, int(jobs))

    def _hear_of(self, queue: str, jobs: int) -> None:
        for post in self._posts:
            if queue in post.queues:
                post.hear_of(jobs)
