"""The keeper's side: it adds up the boards, and what it hears itself, and adds what is new to the minutes."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from copy import deepcopy

from ...db.database import Database
from ...db.link import Link
from ...errors import Contended, Unreachable
from ...metrics import minutes
from ...model.job import Holding
from ...model.numbers import COUNTS, OTHER, Attempts
from ...model.occurrences import Expired, Subscriber, Swept
from .board import PAIRS, Board, Pair
from .counting import NOBODY

log = logging.getLogger("holdfast.keeper")

LEAVES = 2.0
"""Seconds for the last write, when the worker ends."""

Totals = dict[Pair, Attempts]


class Books(Subscriber):
    """What this supervisor and its processes have counted since it started. Nothing in it ever gets less."""

    def __init__(self) -> None:
        self._live: list[Board] = []
        """Of the processes that live."""
        self._kept: Totals = {NOBODY: Attempts()}
        """Of those that have ended, and what we have heard ourselves."""
        self.lost: dict[tuple[Pair, str], int] = {}
        """Attempts whose worker was gone: "swept" if their lease expired, "died" if their process did."""
        self._stored: Totals = {}
        """What the minutes have."""

    def totals(self) -> Totals:
        """Everything that was counted, by queue and kind."""
        sums = deepcopy(self._kept)
        for board in self._live:
            _add_board(sums, board)
        return sums

    def open(self, board: Board) -> None:
        """Read this board from now on: its process has begun."""
        self._live.append(board)

    def close(self, board: Board) -> None:
        """Take over what a process has counted: it has ended."""
        self._live.remove(board)
        _add_board(self._kept, board)

    # What nobody else can count: the processes that could are gone

    def lease_lost(self, held: Holding) -> None:
        self._kept[NOBODY].lease_losses += 1

    def died(self, rows: Sequence[Swept]) -> None:
        self._lose(rows, "died")

    def swept(self, rows: Sequence[Swept]) -> None:
        self._lose(rows, "swept")

    def expired(self, jobs: Sequence[Expired]) -> None:
        for job in jobs:
            self._of(job.queue, job.kind or "")[1].expired += 1

    def _lose(self, rows: Sequence[Swept], how: str) -> None:
        for row in rows:
            pair, attempts = self._of(row.queue, row.kind)
            self.lost[pair, how] = self.lost.get((pair, how), 0) + 1
            match row.status:
                case "dead_letter":
                    attempts.dead += 1
                case "failed":
                    attempts.cancelled += 1
                case "pending":
                    attempts.retried += 1
                case other:
                    raise AssertionError(other)

    def _of(self, queue: str, kind: str) -> tuple[Pair, Attempts]:
        """The pair, and what is kept of it. A sweep finds jobs of other applications, too, so they may be many."""
        full = len(self._kept) >= PAIRS and (queue, kind) not in self._kept
        pair = (OTHER, OTHER) if full else (queue, kind)
        return pair, self._kept.setdefault(pair, Attempts())

    # The minutes

    async def store(self, link: Link) -> None:
        """Add what is new to the minutes. If that fails, it is still new the next time."""
        totals = self.totals()
        new = {
            pair: difference
            for pair, attempts in totals.items()
            if (difference := _difference(attempts, self._stored.get(pair))) is not None
        }
        if new:
            await minutes.add(link, new)
        self._stored = totals


class Minutes:
    """Stores the books once a minute, at a second of its own, so that supervisors do not all write at the same time."""

    def __init__(self, database: Database, books: Books, interval: float, deadline: float) -> None:
        self._books = books
        self._interval = interval
        self._link = Link(database, "numbers", deadline=deadline)
        self._storing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        offset = random.uniform(0, self._interval)
        while True:
            await asyncio.sleep(self._interval - (time.time() - offset) % self._interval)
            self._storing = asyncio.create_task(self._store(), name="holdfast numbers")
            await asyncio.shield(self._storing)  # stopped in the middle, it would store them again at the end

    async def _store(self) -> None:
        try:
            await self._books.store(self._link)
        except (Unreachable, Contended, OSError) as error:
            log.debug("numbers: %s; they are stored with the next ones", error)  # other parts report an outage
        except Exception:
            log.exception("the numbers of this minute could not be stored; they are stored with the next ones")
        finally:
            await self._link.close()  # it is needed for a moment per minute

    async def finish(self) -> None:
        """Store what is left."""
        try:
            async with asyncio.timeout(LEAVES):
                if self._storing is not None:
                    await self._storing
                await self._store()
        except TimeoutError:
            log.debug("numbers: no answer; those of the last minute are lost")


def _add_board(sums: Totals, board: Board) -> None:
    for pair, attempts in board.read():
        mine = sums.get(pair)
        if mine is None:
            sums[pair] = attempts
            continue
        for name in COUNTS:
            setattr(mine, name, getattr(mine, name) + getattr(attempts, name))
        mine.run.add(attempts.run.counts, attempts.run.sum)
        mine.pickup.add(attempts.pickup.counts, attempts.pickup.sum)


def _difference(now: Attempts, before: Attempts | None) -> Attempts | None:
    """What has been added; None: nothing."""
    new = deepcopy(now)
    if before is not None:
        for name in COUNTS:
            setattr(new, name, getattr(now, name) - getattr(before, name))
        new.run.add([-count for count in before.run.counts], -before.run.sum)
        new.pickup.add([-count for count in before.pickup.counts], -before.pickup.sum)
    return new if any(new.counts().values()) or any(new.run.counts) or any(new.pickup.counts) else None
