"""What applications and operators do with schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from ..db.acting import actor
from ..db.runner import Runner
from ..errors import InvalidInput, NotFound
from ..model.ids import new_id
from .declared import Declared
from .firing import GONE, plan_of
from .policy import upcoming


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule, as it was when it was read.

    ```python
    paused = [each.name for each in await hf.list_schedules() if each.paused_at is not None]
    ```
    """

    name: str
    """Its name."""
    source: str
    """'code', or 'row': put into the table at run time."""
    kind: str
    """The name of its task."""
    args: dict[str, Any]
    """The arguments of its jobs."""
    options: dict[str, Any]
    """How its jobs are enqueued."""
    when: str
    """Its timing, in words."""
    cron: str | None
    """Its cron expression; None if it has a period."""
    every: timedelta | None
    """Its period; None if it has a cron expression."""
    tz: str
    """The time zone of its cron expression."""
    missed: str
    """What happens to missed slots: 'skip', 'latest' or 'all'."""
    grace: timedelta
    """How late a slot may be before it counts as missed."""
    jitter: timedelta
    """The most by which a slot is fired later."""
    paused_at: datetime | None
    """When it was paused; None if it is not."""
    gone_since: datetime | None
    """Since when no worker has it in its code; such a schedule does not fire."""
    last_slot: datetime | None
    """The last slot that has fired or was skipped."""
    last_job: UUID | None
    """The job of the last slot that has fired."""
    next_slots: list[datetime]
    """The next five; none if it does not fire now."""
    skipped: int
    """Missed slots that got no job."""
    error: str | None
    """Why it cannot fire."""
    now: datetime
    """When it was read."""

    @property
    def state(self) -> str:
        """What it does, in words."""
        if self.paused_at is not None:
            return f"paused since {self.paused_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.gone_since is not None:
            return f"not in code since {self.gone_since:%Y-%m-%d %H:%M:%S} UTC"
        if self.error is not None:
            return f"cannot fire: {self.error}"
        if self.last_slot is not None and self.last_slot > self.now:
            return "waits: its last slot is ahead of the database's clock; see holdfast schedule reset"
        return "active"


async def put(runner: Runner, declared: Declared) -> None:
    """Add a schedule to the table, or replace the one of this name."""
    if not await runner.run("schedules", "put", msgspec.json.encode(declared).decode(), actor()):
        raise InvalidInput(
            "name",
            f"{declared.name!r} is a schedule of the code; use another name, or remove that one from the code and from "
            f"the table (holdfast schedule remove {declared.name})",
        )


async def remove(runner: Runner, name: str) -> str:
    """Remove a schedule. Returns its source."""
    return str(await _of(runner, "remove", name))


async def pause(runner: Runner, name: str) -> None:
    """Fire nothing until it is resumed."""
    await _of(runner, "pause", name)


async def resume(runner: Runner, name: str) -> None:
    """Fire again, from the next slot on."""
    await _of(runner, "resume", name)


async def reset(runner: Runner, name: str) -> None:
    """Forget which slots have fired, and count from now on."""
    await _of(runner, "reset", name)


async def trigger(runner: Runner, name: str) -> UUID:
    """Enqueue one of its jobs now. Returns the id of the job."""
    job: UUID = await _of(runner, "trigger", name, new_id())
    return job


async def states(runner: Runner, name: str | None = None) -> list[ScheduleState]:
    """The schedules of this installation, or the one of this name."""
    return [_state(row) for row in await runner.run("schedules", "list", name, GONE)]


async def state(runner: Runner, name: str) -> ScheduleState:
    """The schedule of this name."""
    found = await states(runner, name)
    if not found:
        raise _none(name)
    return found[0]


async def _of(runner: Runner, verb: str, name: str, *arguments: Any) -> Any:
    rows = await runner.run("schedules", verb, name, *arguments, actor())
    if not rows:
        raise _none(name)
    return rows[0][0]


def _none(name: str) -> NotFound:
    return NotFound(f"There is no schedule {name!r}; see holdfast schedule list. Workers add those of the code")


def _state(row: Mapping[str, Any] | asyncpg.Record) -> ScheduleState:
    try:
        plan = plan_of(row)
        when, error = plan.timing.words, row["error"]
    except InvalidInput as wrong:
        plan, when, error = None, str(row["cron"] or row["every"]), str(wrong)
    after = max(filter(None, (row["since"], row["last_slot"], row["now"])))
    fires = plan is not None and row["paused_at"] is None and row["gone_since"] is None
    return ScheduleState(
        name=row["name"],
        source=row["source"],
        kind=row["kind"],
        args=msgspec.json.decode(row["args"]),
        options=msgspec.json.decode(row["options"]),
        when=when,
        cron=row["cron"],
        every=row["every"],
        tz=row["tz"],
        missed=row["missed"],
        grace=row["grace"],
        jitter=row["jitter"],
        paused_at=row["paused_at"],
        gone_since=row["gone_since"],
        last_slot=row["last_slot"],
        last_job=row["last_job"],
        next_slots=upcoming(plan, after, 5) if plan is not None and fires else [],
        skipped=row["skipped"],
        error=error,
        now=row["now"],
    )
