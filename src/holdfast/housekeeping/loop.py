"""One loop for all chores."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from ..db.database import PIN_PLANS, Connection, Database, end_if_idle
from ..db.link import backoff, translate
from ..errors import Contended, Unreachable
from ..probes import probe
from .chores import CHORES, Chore, Done, Turn

log = logging.getLogger("holdfast.housekeeping")

IDLE = 30.0
"""Seconds for which whoever has a chore's turn may say nothing before it is another's."""

T = TypeVar("T")


class Housekeeper:
    """Tries every chore that is due, once per interval; the database decides what is due and whose turn it is."""

    def __init__(self, database: Database, interval: float, grace: float, chores: Sequence[Chore] = CHORES) -> None:
        self._database = database
        self._interval = interval
        self._grace = grace
        """Seconds after a connect, a server start or a held-up answer, in which nothing is taken from anyone."""
        self._chores = chores
        self._connection: Connection | None = None
        self._back_at = 0.0
        """Since when the server answers us."""

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        try:
            while True:
                try:
                    await self.round()
                    failures = 0
                except (Unreachable, Contended) as error:
                    failures += 1
                    if failures == 1:
                        log.warning("housekeeping: %s; trying again", error)
                    await asyncio.sleep(backoff(failures))
                    continue
                await asyncio.sleep(self._interval * random.uniform(0.9, 1.1))
        finally:
            if self._connection is not None:
                self._connection.terminate()

    async def round(self) -> dict[str, int]:
        """Do what is due; how much each chore did."""
        did = {}
        for chore in await self._guarded("looking for chores", self._due()) or ():
            done = await self._guarded(f"the chore {chore.name}", self._try(chore))
            if done is not None:
                did[chore.name] = done.rows
        return did

    async def _guarded(self, what: str, work: Awaitable[T]) -> T | None:
        """A failure costs this turn only; raises when the server is away."""
        try:
            return await work
        except Exception as error:
            translated = translate(error)
            if isinstance(translated, Unreachable):
                self._drop()
                raise translated from error
            if not isinstance(translated, Contended):
                log.exception("%s failed; it is tried again", what)
            return None

    async def _due(self) -> list[Chore]:
        """One statement for all, so that many hosts with nothing to do cost little."""
        connection = await self._connect()
        asked = time.monotonic()
        names, intervals = [chore.name for chore in self._chores], [self._early(chore) for chore in self._chores]
        rows = await connection.fetch(self._database.sql("housekeeping", "due"), names, intervals)
        self._note_answer(asked)
        due = {row[0] for row in rows}
        return [chore for chore in self._chores if chore.name in due]

    def _early(self, chore: Chore) -> float:
        """A chore's interval, a little less: a round that is early must not lose its turn to jitter."""
        return (chore.interval or self._interval) * 0.8

    async def _try(self, chore: Chore) -> Done | None:
        connection = await self._connect()
        asked = time.monotonic()
        if chore.recovers and asked - self._back_at < self._grace:
            return None
        async with connection.transaction():
            await connection.execute("; ".join([end_if_idle(IDLE), *([PIN_PLANS] if self._database.pooler else [])]))
            rows = await connection.fetch(
                self._database.sql("housekeeping", "turn"),
                chore.name, f"{self._database.schema}.{chore.name}", self._early(chore),
            )  # fmt: skip
            held_up = self._note_answer(asked)
            if not rows or (chore.recovers and (held_up or rows[0][2] < self._grace)):
                return None
            floor, now, _ = rows[0]
            if chore.recovers:
                probe("sweep.before")
            done = await chore.work(Turn(connection, self._database, floor, now))
            await connection.execute(self._database.sql("housekeeping", "done"), chore.name, done.floor, done.rows)
        return done

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect("housekeeping", planner=True)
            self._back_at = time.monotonic()
        return self._connection

    def _note_answer(self, asked: float) -> bool:
        """Was it held up so long that leases may have run out meanwhile?

        Then the server was away, and only a pooler, or a link that went silent, kept us from seeing a reconnect.
        """
        now = time.monotonic()
        held_up = now - asked > self._grace > 0
        if held_up:
            self._back_at = now
        return held_up

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
