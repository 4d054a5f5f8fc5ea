"""The chores as functions: each does one bounded batch, in the transaction of its turn."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from ..db.database import Connection, Database
from ..model.occurrences import Expired, Occurrences, Swept

BATCH = 1000
SILENCE = 90.0
"""Seconds without a heartbeat after which a worker is marked as dead."""
WHOLE_SWEEPS = 1 / 30
"""Share of the sweeps that start from the very beginning, for leases that were back-dated by hand."""
WHOLE_EXPIRIES = 1 / 10
"""The same, of the chore `expire`."""
SLACK = timedelta(seconds=60)
LOCKED_FOR = timedelta(minutes=10)
"""How long every sweep returns to rows that were locked; after that, only whole sweeps do. The transaction that locks
them keeps the index full of dead entries, and the floor is there to avoid walking these."""
KEY_BATCHES = 10
"""Most batches of keys that one batch of the chore looks at."""
DAYS_AHEAD = 7
MINUTE = timedelta(minutes=1)
LATE = timedelta(seconds=5)
"""Dead letters whose transactions commit within this time after their minute are counted."""
BURST = 10
"""Dead letters of one error group in a minute that are noted."""
MOST_DEAD = 10_000
"""Dead letters that are looked at, at most."""
MOST_CHILDREN = 100_000
"""Children that a run of the chore `children` looks at."""
MOST_BURSTS = timedelta(hours=1)
"""How far back bursts are looked for, if housekeeping has not run for longer."""
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_LOWEST = UUID(int=0)


class Turn(msgspec.Struct, frozen=True):
    """A chore's turn: the transaction's connection, where the last run ended, and when this one began."""

    connection: Connection
    database: Database
    occurrences: Occurrences
    floor: datetime | None
    now: datetime
    """The database's time, from an answer that was not late."""
    rest: Any = None
    """Where the previous batch of the same run ended; None: this is the first."""
    mark: str | None = None
    """What the last batch has stored for the next one, on whatever host that runs."""

    async def run(self, name: str, *arguments: Any) -> list[Any]:
        return list(await self.connection.fetch(self.database.sql("housekeeping", name), *arguments, timeout=60))


class Done(msgspec.Struct, frozen=True):
    rows: int
    floor: datetime | None = None
    rest: Any = None
    """Where the next batch continues; None: nothing is left to this run."""
    mark: str | None = None
    """What is stored for the next batch: the next run continues there, too."""


class Chore(msgspec.Struct, frozen=True):
    name: str
    interval: float
    """Seconds; 0: the worker's housekeeping interval."""
    work: Callable[[Turn], Awaitable[Done]]
    recovers: bool = False
    """It takes rows from silent workers, so it waits for a while after an outage."""


class Sweeping(msgspec.Struct, frozen=True):
    """The progress of a sweep of several batches."""

    floor: datetime
    """Where it started: if this host dies, the next one starts there, too."""
    at: datetime
    id: UUID
    passed_over: datetime | None
    """The oldest lease of a row that was locked."""


async def sweep(turn: Turn) -> Done:
    """Recover rows with expired leases."""
    begun: Sweeping = turn.rest or _begin(turn)
    for pid, session, _ in await turn.run("end_sessions", begun.at, begun.id, turn.now, BATCH):
        turn.occurrences.session_ended(pid, session)
    rows = await turn.run("sweep", begun.at, begun.id, turn.now, BATCH)
    ((id, at, passed_over, *_),) = (row for row in rows if row["status"] is None)
    swept = [
        Swept(row["id"], row["worker"], row["lease_generation"], row["status"], row["queue"], row["kind"] or "")
        for row in rows
        if row["status"] is not None
    ]
    if swept:
        turn.occurrences.swept(swept)
    oldest = min(filter(None, (begun.passed_over, passed_over)), default=None)
    if at is not None:
        return Done(len(rows) - 1, begun.floor, rest=Sweeping(begun.floor, at, id, oldest))
    done = turn.now - SLACK
    return Done(len(rows) - 1, done if oldest is None else min(done, max(oldest, turn.now - LOCKED_FOR)))


def _begin(turn: Turn) -> Sweeping:
    whole = turn.floor is None or random.random() < WHOLE_SWEEPS
    floor = _BEGINNING if whole or turn.floor is None else turn.floor
    return Sweeping(floor, floor, _LOWEST, None)


async def bury(turn: Turn) -> Done:
    spent, rough = await turn.run("bury", BATCH), await turn.run("mend_dead", BATCH)
    return Done(len(spent) + len(rough), rest=max(len(spent), len(rough)) >= BATCH or None)


async def archive(turn: Turn) -> Done:
    return await _prune(turn, {"archive": _LOWEST, "archive_children": _LOWEST})


async def expire(turn: Turn) -> Done:
    """End what has expired while it waited, and unblock the next rows of its ordered keys.

    A run looks from a minute before the last one on. Rows that come to wait long after they have expired, such as
    retries, are ended by the claim, or by a run that looks from the very beginning.
    """
    whole = turn.floor is None or random.random() < WHOLE_EXPIRIES
    floor, at = turn.rest or ((_BEGINNING, _BEGINNING) if whole else (turn.floor, turn.floor))
    rows = await turn.run("expire", at, BATCH)
    if rows:
        turn.occurrences.expired([Expired(row["id"], row["kind"], row["queue"]) for row in rows])
    if keys := sorted({(row["queue"], row["key"]) for row in rows if row["ordered"]}):
        await turn.run("unblock", [queue for queue, _ in keys], [key for _, key in keys])
    if len(rows) >= BATCH:
        return Done(len(rows), floor, rest=(floor, max(row["expires_at"] for row in rows)))
    return Done(len(rows), turn.now - SLACK)


async def unblock(turn: Turn) -> Done:
    """Go through the keys with blocked rows, and unblock heads that nothing holds back any more."""
    unblocked, last = 0, turn.rest or ("", "")
    for _ in range(KEY_BATCHES):
        rows = await turn.run("blocked_keys", *last, BATCH)
        stuck = [(queue, key) for queue, key, held in rows if held]
        if stuck:
            ((count,),) = await turn.run("unblock", [queue for queue, _ in stuck], [key for _, key in stuck])
            unblocked += count
        if len(rows) < BATCH:
            return Done(unblocked)
        last = (rows[-1][0], rows[-1][1])
        if unblocked >= BATCH:  # each one holds a lock until the end of the turn
            break
    return Done(unblocked, rest=last)


async def disown(turn: Turn) -> Done:
    rows = await turn.run("disown", BATCH, BATCH * 10)
    return Done(len(rows), rest=len(rows) >= BATCH or None)


async def members(turn: Turn) -> Done:
    rows = await turn.run("members", SILENCE)
    for (worker,) in rows:
        turn.occurrences.called_dead(worker, SILENCE)
    return Done(len(rows))


async def partitions(turn: Turn) -> Done:
    await turn.connection.execute("set local lock_timeout = '500ms'")
    ((made,),) = await turn.run("make_partitions", DAYS_AHEAD)
    return Done(made)


async def retention(turn: Turn) -> Done:
    dropped = 0
    if turn.rest is None:
        # A DROP that waits holds up every completion behind it: give up at once, and retry later.
        await turn.connection.execute("set local lock_timeout = '100ms'")
        ((dropped,),) = await turn.run("drop_partitions")
    done = await _prune(turn, {"forget_default": (0, 0)})
    return Done(dropped + done.rows, rest=done.rest)


async def forget(turn: Turn) -> Done:
    statements = ("forget_dedupe", "forget_once", "forget_entered", "forget_asked_again")
    return await _prune(turn, dict.fromkeys(statements, _BEGINNING))


async def instances(turn: Turn) -> Done:
    return await _prune(turn, {"fold_instances": _LOWEST, "fold_steps": _LOWEST})


async def children(turn: Turn) -> Done:
    """Look for children that have ended without telling the instances that wait for them.

    A run looks at some of the children, and the next run goes on there. Such a child is rare, and those that steps
    name may be millions.
    """
    looked: int = (turn.rest or 0) + BATCH
    ((told, last),) = await turn.run("tell_missed", BATCH, UUID(turn.mark) if turn.mark else _LOWEST)
    if last is None:
        return Done(told)
    return Done(told, rest=looked if looked < MOST_CHILDREN else None, mark=str(last))


async def gauges(turn: Turn) -> Done:
    """Measure what is too expensive to count on demand, and store it."""
    ((measured, _, _),) = await turn.run("gauges")
    return Done(measured)


async def minutes(turn: Turn) -> Done:
    """Keep minutes for two days, then ten minutes at a time, for two weeks."""
    return await _prune(turn, {"merge_minutes": _BEGINNING, "forget_minutes": _BEGINNING})


async def journal(turn: Turn) -> Done:
    """Note bursts of dead letters, of whole minutes that are over; forget what is older than journal_days."""
    if turn.rest is not None:
        return await _prune(turn, turn.rest)
    over = (turn.now - LATE).replace(second=0, microsecond=0)
    since = max(turn.floor or over - MINUTE, over - MOST_BURSTS)
    noted = await turn.run("note_bursts", since, over, BURST, MOST_DEAD) if since < over else []
    done = await _prune(turn, {"forget_journal": _BEGINNING})
    return Done(len(noted) + done.rows, max(over, since), done.rest)


async def _prune(turn: Turn, statements: Mapping[str, Any]) -> Done:
    """Run a batch of each of the statements, from its start or from where the last batch ended.

    Locked rows are left for the next run. So a run ends even if whole batches are locked.
    """
    rows, left = 0, {}
    for name, begin in (statements if turn.rest is None else turn.rest).items():
        ((count, last),) = await turn.run(name, BATCH, begin)
        rows += count
        if last is not None and (count or last != begin):
            left[name] = last
    return Done(rows, rest=left or None)


CHORES = (
    Chore("sweep", 0, sweep, recovers=True),
    Chore("bury", 0, bury),
    Chore("archive", 0, archive),
    Chore("expire", 0, expire),
    Chore("unblock", 0, unblock),
    Chore("disown", 0, disown),
    Chore("members", 0, members),
    Chore("partitions", 3600, partitions),
    Chore("retention", 3600, retention),
    Chore("forget", 60, forget),
    Chore("children", 60, children),
    Chore("instances", 3600, instances),
    Chore("gauges", 0, gauges),
    Chore("minutes", 3600, minutes),
    Chore("journal", 60, journal),
)
