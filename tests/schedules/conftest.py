"""Schedulers on a database whose clock tests can set."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.pooler import database_at
from tests.support.workers import Inbox

from holdfast.schedules.declared import Declared
from holdfast.schedules.firing import Scheduler

NOON = datetime(2031, 5, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass(slots=True)
class Clock:
    """The schema's only clock: it stands still, or differs from the server's by some time."""

    inbox: Inbox

    def stop_at(self, instant: datetime) -> None:
        self._be(f"'{instant.isoformat()}'::timestamptz")

    def run_from(self, instant: datetime) -> None:
        """Go on from this instant."""
        begun = self.inbox.one("select clock_timestamp()")
        self._be(f"statement_timestamp() + interval '{(instant - begun).total_seconds():.6f} seconds'")

    def _be(self, expression: str) -> None:
        self.inbox.rows(
            "create or replace function holdfast.clock() returns timestamptz language sql stable parallel safe "
            f"as $$ select {expression} $$"
        )


@pytest.fixture
def clock(inbox: Inbox) -> Clock:
    """It stands at noon."""
    clock = Clock(inbox)
    clock.stop_at(NOON)
    return clock


Schedulers = Callable[..., Scheduler]


@pytest.fixture
async def scheduler(inbox: Inbox) -> AsyncIterator[Schedulers]:
    """Makes schedulers."""
    made: list[Scheduler] = []

    def make(*declared: Declared, **more: Any) -> Scheduler:
        made.append(Scheduler(database_at(inbox.url), declared, **more))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def settle(*schedulers: Scheduler) -> None:
    """Until there is nothing more to do now."""
    for _ in range(1000):
        waits = [await each.round() for each in schedulers]
        if min(waits) > 0:
            return
    raise AssertionError("it does not come to rest")


def add(inbox: Inbox, name: str = "minutely", *, when: str = "every => '1 minute'", **columns: Any) -> None:
    """Insert a schedule as any program may."""
    column, _, value = when.partition(" => ")
    names = ["name", "kind", column, *columns]
    values = [name, "job", value.strip("'"), *columns.values()]
    placeholders = ", ".join(["%s"] * len(values))
    inbox.rows(f"insert into holdfast.schedules ({', '.join(names)}) values ({placeholders})", *values)


def slots(inbox: Inbox, name: str = "minutely") -> list[datetime]:
    """The slots of its jobs, in the order of enqueue."""
    rows = inbox.rows(
        "select (headers ->> 'slot')::timestamptz as slot from holdfast.jobs"
        " where headers ->> 'schedule' = %s and headers ? 'slot' order by seq",
        name,
    )
    return [row["slot"] for row in rows]


def row(inbox: Inbox, name: str = "minutely") -> dict[str, Any]:
    (found,) = inbox.rows("select * from holdfast.schedules where name = %s", name)
    return found


def minutes(numbers: Sequence[int]) -> list[datetime]:
    return [NOON + n * MINUTE for n in numbers]
