"""The scheduler: one loop per host that fires what is due."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec

from ..db.database import Database, in_one_line
from ..db.link import DEADLINE, Link, backoff
from ..errors import Contended, InvalidInput, Unreachable
from ..model.availability import Availability
from ..model.occurrences import Occurrences, Part
from ..probes import probe
from .declared import Declared
from .policy import Plan, step
from .timing import Cron, Every, timing

LONGEST = 10.0
"""Seconds between two looks at the most: a schedule that was put into the table, or changed, is seen by then."""
LIMIT = 100
"""Schedules per look."""
LOST = 0.05
"""Seconds until the next look after another host was faster."""
SEEN_EVERY = 30.0
"""Seconds between two signs that a worker has the schedules of its code."""
GONE = 100.0
"""Seconds without such a sign after which a schedule is not in the code any more."""
RECHECK = 3600.0
"""Seconds after which the next times are computed again: the rules of a time zone may have changed."""
RETRY = 10.0
"""Seconds until a schedule that could not fire is tried again."""


class Scheduler:
    """Fires the schedules in the table, and those of this application's code.

    All hosts look at the same time, and the database decides which one fires a slot. Nothing is remembered here.
    """

    def __init__(
        self,
        database: Database,
        declared: Sequence[Declared] = (),
        occurrences: Occurrences = Occurrences(),  # noqa: B008 - nobody is told, and nothing in it changes
        deadline: float = DEADLINE,
        link: Link | None = None,
    ) -> None:
        self._link = link or Link(database, "scheduler", deadline=deadline)
        self._declared = msgspec.json.encode(list(declared)).decode()
        self._digests = [each.digest for each in declared]
        self._occurrences = occurrences
        self._availability = Availability(Part.SCHEDULES, occurrences)
        self._started = False
        self._seen_at = self._checked_at = -RECHECK
        """When we last said that we have our schedules, and computed all next times; by the loop's clock."""
        self._complained: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    pause = await self.round()
                    self._availability.succeeded()
                except (Unreachable, Contended) as error:
                    self._availability.failed(error)
                    pause = backoff(self._availability.failures)
                except Exception as error:
                    self._occurrences.schedule_failed(None, error)
                    pause = LONGEST
                await asyncio.sleep(pause)
        finally:
            self._link.drop()

    async def round(self) -> float:
        """Fire what is due. Returns the seconds until the next look."""
        now = asyncio.get_running_loop().time()
        if self._digests and now - self._seen_at >= SEEN_EVERY:
            await self._declare()
            self._seen_at = now
        recheck = now - self._checked_at >= RECHECK
        rows = await self._look(None, None) if recheck else await self._look(LONGEST, LIMIT)
        if recheck:
            self._checked_at = now
        lost = False
        for row in rows:
            if recheck or row["next_at"] is None or row["next_at"] <= row["now"]:
                lost |= not await self._deal_with(row)
        if lost:
            return LOST * random.uniform(0.5, 1.0)
        if rows and not recheck:
            first = rows[0]
            wait = (first["next_at"] - first["now"]).total_seconds() if first["next_at"] is not None else 0.0
            if wait > 0:
                return min(wait, LONGEST)
        return 0.0 if rows else LONGEST

    async def close(self) -> None:
        await self._link.close()

    async def _look(self, ahead: float | None, limit: int | None) -> list[asyncpg.Record]:
        return await self._link.run("schedules", "due", self._digests, ahead, limit)

    async def _declare(self) -> None:
        """Put the schedules of our code into the table. The newest start wins; a declaration that no worker has any
        more is replaced by ours, so that a worker of an older release cannot leave its own behind."""
        rows = await self._link.run("schedules", "declare", self._declared, not self._started, SEEN_EVERY * 0.8, GONE)
        self._started = True
        taken = {row["name"] for row in rows if row["whose"] == "taken"}
        for name in sorted(taken - self._complained):
            self._occurrences.schedule_failed(name, _taken(name))
        self._complained = taken

    async def _deal_with(self, row: asyncpg.Record) -> bool:
        """Fire what is due of one schedule. False: another host was faster, or it has changed."""
        try:
            plan = self._plan(row)
            after = max(filter(None, (row["since"], row["last_slot"])))
            todo = step(plan, after, row["now"])
            if todo.upto is None and todo.next_at == row["next_at"] is not None:
                return True
            probe("schedule.before")
            ((jobs,),) = await self._link.run(
                "schedules",
                "fire",
                row["name"],
                row["revision"],
                list(todo.fire),
                todo.upto,
                todo.skipped,
                todo.next_at,
            )
            probe("schedule.after")
        except (Unreachable, Contended):
            raise
        except Exception as error:
            return await self._note_failure(row, error)
        if jobs is None:
            return False
        if todo.fire:
            self._occurrences.schedule_fired(row["name"], todo.fire, jobs)
        if todo.skipped:
            self._occurrences.schedule_missed(row["name"], todo.skipped)
        return True

    def _plan(self, row: asyncpg.Record) -> Plan:
        return plan_of(row)

    async def _note_failure(self, row: asyncpg.Record, error: Exception) -> bool:
        if row["error"] is None:  # else it was reported
            self._occurrences.schedule_failed(row["name"], error)
        words = str(error) if isinstance(error, InvalidInput) else in_one_line(error)
        await self._link.run("schedules", "failed", row["name"], row["revision"], words, RETRY)
        return True


def plan_of(row: Any) -> Plan:
    """The plan of a row, which any program may have written."""
    when: Every | Cron = timing(row["cron"], row["every"], row["tz"] if row["every"] is None else "UTC")
    return Plan(row["name"], when, row["missed"], row["grace"], max(row["jitter"], timedelta()))


def _taken(name: str) -> InvalidInput:
    return InvalidInput(
        "name",
        f"a schedule {name!r} was added at run time, so the one of this code does not fire; rename one of the two, or "
        "remove that one",
    )
