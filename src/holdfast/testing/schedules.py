"""Fire schedules when a test says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import asyncpg
from msgspec.structs import replace

from ..errors import ConfigurationError
from ..loading import import_tasks
from ..model.occurrences import Occurrences, Subscriber
from ..schedules.firing import Scheduler
from ..schedules.policy import Plan
from .databases import check_once
from .sessions import link

if TYPE_CHECKING:
    from ..app import Holdfast

ROUNDS = 1000
"""The most rounds of one call: each fires up to 100 slots of every schedule."""
ALWAYS = timedelta(days=36_500)


class Fired(NamedTuple):
    """A slot that has got its job.

    ```python
    print([(fired.schedule, fired.slot) for fired in await fire_schedules(hf)])
    ```
    """

    schedule: str
    """The name of the schedule."""
    slot: datetime
    """When it was due."""


async def fire_schedules(app: Holdfast, *, late: bool = False) -> list[Fired]:
    """Enqueue the jobs of all slots that are due, and return the slots, oldest first. Then `drain` runs the jobs.

    It fires as if workers had been running all the time. With `late`, as if they had just been restarted: for slots
    older than the grace period, the schedule's policy `missed` decides. Schedules of the code count from the moment at
    which `frozen_clock` is entered, or from the first call of this function.

    ```python
    from holdfast.testing import fire_schedules

    async with frozen_clock(hf) as clock:
        await clock.advance("10m")
        assert any(fired.schedule == "refresh_rates" for fired in await fire_schedules(hf))
    ```
    """
    await check_once(app, "fire_schedules()")
    watch = _Watch()
    scheduler = _scheduler(app, watch, late)
    for _ in range(ROUNDS):
        before = watch.slots
        await scheduler.round()
        if watch.error is not None:
            raise watch.error
        if watch.slots == before:
            break
    else:
        raise ConfigurationError(
            f"fire_schedules: {watch.slots} slots were due, and there are more; expected that the clock is moved in "
            "smaller steps. Or pass late=True: then the policy `missed` of each schedule decides"
        )
    return sorted(watch.fired, key=lambda fired: (fired.slot, fired.schedule))


def fire_schedules_sync(app: Holdfast, *, late: bool = False) -> list[Fired]:
    """As `fire_schedules`, for code that does not await."""
    return app._calls.wait_for(fire_schedules(app, late=late))


async def declare_schedules(app: Holdfast) -> None:
    """Put the schedules of the code into the table, as a worker does when it starts."""
    import_tasks(app)
    if app._schedules:
        await _scheduler(app, _Watch(), False)._declare()


def _scheduler(app: Holdfast, watch: _Watch, late: bool) -> Scheduler:
    kind = Scheduler if late else _Punctual
    return kind(app._database, list(app._schedules.values()), Occurrences(watch), link=link(app))


class _Punctual(Scheduler):
    """No slot is late for it."""

    def _plan(self, row: asyncpg.Record) -> Plan:
        return replace(super()._plan(row), grace=ALWAYS)


class _Watch(Subscriber):
    def __init__(self) -> None:
        self.fired: list[Fired] = []
        self.slots = 0
        """How many slots were dealt with: fired or skipped."""
        self.error: Exception | None = None

    def schedule_fired(self, schedule: str, slots: Sequence[datetime], jobs: Sequence[UUID]) -> None:
        self.fired += [Fired(schedule, slot) for slot in slots]
        self.slots += len(slots)

    def schedule_missed(self, schedule: str, slots: int) -> None:
        self.slots += slots

    def schedule_failed(self, schedule: str | None, error: Exception) -> None:
        self.error = self.error or error
