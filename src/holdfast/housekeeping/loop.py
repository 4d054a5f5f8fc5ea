"""One loop for all chores."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ..db.database import PIN_PLANS, Connection, Database, end_if_idle
from ..db.link import backoff, translate
from ..errors import Contended, Unreachable
from ..model.availability import Availability
from ..model.occurrences import Occurrences, Part
from ..probes import probe
from .chores import CHORES, Chore, Done, Turn

IDLE = 30.0
"""Seconds without a call after which a host loses its turn to another one."""
SLICE, SWEEP_SLICE = 1.0, 10.0
"""Seconds after which a run lets the other chores have their turn, and continues in the next round; the second for
chores that recover rows, because jobs wait for them."""
SOON = 0.05
"""Seconds between two rounds while something is left."""

T = TypeVar("T")


class Run(msgspec.Struct, frozen=True):
    """A chore's run of several batches, between two of them."""

    noted_at: datetime
    """When we noted the last batch. If the database has another time, another host has taken over."""
    rows: int
    rest: Any
    """Where the next batch continues."""


class Housekeeper:
    """Tries every chore that is due, once per interval; the database decides what is due and whose turn it is.

    In the grace period after an outage, nothing is taken from other workers: every lease may have expired while the
    work goes on. An idle session that was ended is no outage, if the server can be reached at once and has answered
    recently: workers renew every `grace` seconds, a third of a lease, so their leases last longer than that.
    """

    def __init__(
        self,
        database: Database,
        interval: float,
        grace: float,
        chores: Sequence[Chore] = CHORES,
        idle: float = IDLE,
        occurrences: Occurrences = Occurrences(),  # noqa: B008 - without subscribers, and never changed
    ) -> None:
        self._occurrences = occurrences
        self._availability = Availability(Part.HOUSEKEEPING, occurrences)
        self._database = database
        self._interval = interval
        self._grace = grace
        """Seconds after an outage in which nothing is taken from other workers."""
        self._chores = chores
        self._opening = "; ".join([end_if_idle(idle), *([PIN_PLANS] if database.pooler else [])])
        self._runs: dict[str, Run] = {}
        """Our runs that have something left, by chore."""
        self._connection: Connection | None = None
        self._away = True
        """Was the server away at the last call, as far as we know?"""
        self._answered_at = 0.0
        """When the last call was sent that it answered."""
        self._back_at = 0.0
        """Since when it answers."""
        self._server: datetime | None = None
        """When the server was started: another time means another server."""

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                try:
                    await self.round()
                    self._availability.succeeded()
                except (Unreachable, Contended) as error:
                    self._availability.failed(error)
                    await asyncio.sleep(backoff(self._availability.failures))
                    continue
                await asyncio.sleep(self._pause())
        finally:
            self._drop()

    def _pause(self) -> float:
        """Seconds until the next round: not past the end of the grace period, because a connection that is idle for
        longer may be cut again."""
        if self._runs:
            return SOON
        pause = self._interval * random.uniform(0.9, 1.1)
        grace = self._back_at + self._grace - time.monotonic()
        return min(pause, grace + SOON) if grace > 0 else pause

    async def round(self) -> dict[str, int]:
        """Run the chores that are due; return how many rows each one handled."""
        did: dict[str, int] = {}
        for chore in await self._guarded(self._due()) or ():
            until = time.monotonic() + (SWEEP_SLICE if chore.recovers else SLICE)
            while (rows := await self._guarded(self._try(chore), chore)) is not None:
                did[chore.name] = did.get(chore.name, 0) + rows
                if chore.name not in self._runs or time.monotonic() > until:
                    break
        return did

    async def _guarded(self, work: Awaitable[T], chore: Chore | None = None) -> T | None:
        """Run it; a failure only costs this turn. Raises if the server is away."""
        try:
            return await work
        except Exception as error:
            translated = translate(error)
            if isinstance(translated, Unreachable):
                self._drop()
                self._away = self._away or translated.silent
                raise translated from error
            known = translated if isinstance(translated, Contended) else error
            self._occurrences.chore_failed(chore.name if chore else None, known)
            if chore is not None:
                self._runs.pop(chore.name, None)
                await self._guarded(self._note_failure(chore, translated))
            return None

    async def _due(self) -> list[Chore]:
        """The chores that are due: one statement for all, so that many hosts with nothing to do cost little."""
        connection = await self._connect()
        asked = time.monotonic()
        rows = await connection.fetch(
            self._database.sql("housekeeping", "due"),
            [chore.name for chore in self._chores],
            [self._early(chore.interval) for chore in self._chores],
            [self._early() for _ in self._chores],
        )
        self._note_answer(asked)
        due = {row[0] for row in rows} | self._runs.keys()
        return [chore for chore in self._chores if chore.name in due]

    def _early(self, interval: float = 0) -> float:
        """A little less than a chore's interval: a round that is early by jitter must not miss its turn."""
        return (interval or self._interval) * 0.8

    async def _try(self, chore: Chore) -> int | None:
        """Run one batch, if the chore is due and no other host has its turn; return how many rows it handled."""
        connection = await self._connect()
        asked = time.monotonic()
        run = self._runs.pop(chore.name, None)
        if chore.recovers and asked - self._back_at < self._grace:
            self._occurrences.chore_postponed(chore.name, self._back_at + self._grace - asked)
            return None
        async with connection.transaction():
            turn = await self._turn(connection, chore, run, asked)
            if turn is None:
                return None
            if chore.recovers:
                probe("sweep.before")
            done = await chore.work(turn)
            noted_at = await self._note(connection, chore, done, run.rows if run else 0)
        if done.rest is not None:
            self._runs[chore.name] = Run(noted_at, (run.rows if run else 0) + done.rows, done.rest)
        self._occurrences.chore_ran(chore.name, done.rows, time.monotonic() - asked)
        return done.rows

    async def _turn(self, connection: Connection, chore: Chore, run: Run | None, asked: float) -> Turn | None:
        await connection.execute(self._opening)
        lock = f"{self._database.schema}.{chore.name}"
        if not await connection.fetchval(self._database.sql("housekeeping", "take"), lock):
            return None
        rows = await connection.fetch(
            self._database.sql("housekeeping", "turn"),
            chore.name, self._early(chore.interval), self._early(), run.noted_at if run else None,
        )  # fmt: skip
        held_up = self._note_answer(asked)
        if not rows:
            return None
        floor, now, server, up, mark = rows[0]
        if self._note_server(server) or (chore.recovers and (held_up or up < self._grace)):
            if chore.recovers:
                self._occurrences.chore_postponed(chore.name, self._grace)
            return None
        return Turn(connection, self._database, self._occurrences, floor, now, run.rest if run else None, mark)

    async def _note(self, connection: Connection, chore: Chore, done: Done, rows_before: int) -> datetime:
        noted_at: datetime = await connection.fetchval(
            self._database.sql("housekeeping", "done"),
            chore.name, done.floor, rows_before + done.rows, done.rest is not None, self._every(chore),
            done.mark,
        )  # fmt: skip
        return noted_at

    async def _note_failure(self, chore: Chore, error: BaseException) -> None:
        connection = await self._connect()
        words = f"{error}" if isinstance(error, Contended) else f"{type(error).__name__}: {error}"
        await connection.execute(self._database.sql("housekeeping", "failed"), chore.name, words, self._every(chore))

    def _every(self, chore: Chore) -> float:
        """Seconds after which it should have run again, stored for `holdfast health` and other readers."""
        return (chore.interval or self._interval) + (self._grace if chore.recovers else 0)

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            away, self._away = self._away, True
            self._connection = await self._database.connect("housekeeping", planner=True)
            self._away = False
            now = time.monotonic()
            # A lease that was valid at the last answer, and renewed in time, lasts longer than this.
            if away or now - self._answered_at > self._grace * 1.5:
                self._back_at = now
        return self._connection

    def _note_answer(self, asked: float) -> bool:
        """Note an answer. True if it took so long that leases may have expired.

        Then the server was away, and a pooler or a silent link kept us from noticing a reconnect.
        """
        now = time.monotonic()
        held_up = now - asked > self._grace > 0
        if held_up:
            self._back_at = now
        self._answered_at = asked
        return held_up

    def _note_server(self, started: datetime) -> bool:
        """Note when the server was started. True if it is another one, after a restart or a failover."""
        another = self._server not in (None, started)
        if another:
            self._back_at = time.monotonic()
        self._server = started
        return another

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
