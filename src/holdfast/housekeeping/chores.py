"""Each chore as a function: one bounded batch, in the transaction that holds its turn."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ..db.database import Connection, Database

log = logging.getLogger("holdfast.housekeeping")

BATCH = 1000
SILENCE = 90.0
"""Seconds without a heartbeat after which a worker is called dead."""
WHOLE_SWEEPS = 1 / 30
"""Share of the sweeps that start from the very beginning, for leases that somebody back-dated."""
SLACK = timedelta(seconds=60)
KEY_BATCHES = 100
"""Most batches of keys that one round looks over."""
DAYS_AHEAD = 7
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """A chore's turn: the transaction's connection, where the last run left off, and when this one began."""

    connection: Connection
    database: Database
    floor: datetime | None
    now: datetime
    """The database's time, as it answered in good time."""

    async def run(self, name: str, *arguments: Any) -> list[Any]:
        return list(await self.connection.fetch(self.database.sql("housekeeping", name), *arguments, timeout=60))


@dataclass(frozen=True, slots=True)
class Done:
    rows: int
    floor: datetime | None = None


@dataclass(frozen=True, slots=True)
class Chore:
    name: str
    interval: float
    """Seconds; 0: the worker's housekeeping interval."""
    work: Callable[[Turn], Awaitable[Done]]
    recovers: bool = False
    """It takes rows from those who were silent, so it waits a while after an outage."""


async def sweep(turn: Turn) -> Done:
    """Return rows with expired leases."""
    floor = _BEGINNING if turn.floor is None or random.random() < WHOLE_SWEEPS else turn.floor
    for pid, session, _ in await turn.run("end_sessions", floor, turn.now, BATCH):
        log.warning("ended session %s (%s), whose lease ran out inside a transaction", pid, session)
    rows = await turn.run("sweep", floor, turn.now, BATCH)
    for id, status, worker, generation in rows:
        log.warning("swept %s: worker %s lost generation %s, now %s", id, worker, generation, status)
    # A full batch may have left some behind: the next run starts at the beginning.
    return Done(len(rows), None if len(rows) >= BATCH else turn.now - SLACK)


async def bury(turn: Turn) -> Done:
    return Done(len(await turn.run("bury", BATCH)) + len(await turn.run("mend_dead", BATCH)))


async def archive(turn: Turn) -> Done:
    return Done(len(await turn.run("archive", BATCH)))


async def release(turn: Turn) -> Done:
    """Go through the keys of which something is parked, and release heads that nobody holds back any more."""
    released, last = 0, ("", "")
    for _ in range(KEY_BATCHES):
        rows = await turn.run("blocked_keys", *last, BATCH)
        stuck = [(queue, key) for queue, key, held in rows if held]
        if stuck:
            ((count,),) = await turn.run("release", [queue for queue, _ in stuck], [key for _, key in stuck])
            released += count
        if len(rows) < BATCH or released >= BATCH:  # each of them holds a lock until the end of the turn
            break
        last = (rows[-1][0], rows[-1][1])
    return Done(released)


async def disown(turn: Turn) -> Done:
    return Done(len(await turn.run("disown", BATCH, BATCH * 10)))


async def members(turn: Turn) -> Done:
    rows = await turn.run("members", SILENCE)
    for (worker,) in rows:
        log.warning("worker %s was silent for %s s and is called dead", worker, SILENCE)
    return Done(len(rows))


async def partitions(turn: Turn) -> Done:
    await turn.connection.execute("set local lock_timeout = '500ms'")
    ((made,),) = await turn.run("make_partitions", DAYS_AHEAD)
    return Done(made)


async def retention(turn: Turn) -> Done:
    # A DROP that waits blocks every completion behind it: give up at once and come back.
    await turn.connection.execute("set local lock_timeout = '100ms'")
    ((dropped,),) = await turn.run("drop_partitions")
    return Done(dropped + len(await turn.run("forget_default", BATCH)))


async def forget(turn: Turn) -> Done:
    return Done(len(await turn.run("forget_dedupe", BATCH)) + len(await turn.run("forget_once", BATCH)))


CHORES = (
    Chore("sweep", 0, sweep, recovers=True),
    Chore("bury", 0, bury),
    Chore("archive", 0, archive),
    Chore("release", 0, release),
    Chore("disown", 0, disown),
    Chore("members", 0, members),
    Chore("partitions", 3600, partitions),
    Chore("retention", 3600, retention),
    Chore("forget", 60, forget),
)
