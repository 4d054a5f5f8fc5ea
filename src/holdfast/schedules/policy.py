"""Which open slots of a schedule fire now, which are missed, and when there is something to do next. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from .timing import Every, Timing

Missed = Literal["skip", "latest", "all"]
POLICIES: tuple[Missed, ...] = ("skip", "latest", "all")
GRACE = timedelta(seconds=30)
BATCH = 100
"""The most jobs that one statement enqueues."""
SCAN = 500
"""The most slots that are looked at in one go: a cron slot costs 10 to 40 µs, and others wait for this loop."""


class Plan(msgspec.Struct, frozen=True):
    """How a schedule deals with its slots."""

    name: str
    timing: Timing
    missed: Missed = "latest"
    grace: timedelta = GRACE
    jitter: timedelta = timedelta()

    def moment(self, slot: datetime) -> datetime:
        """When a slot is due: later by a part of the jitter that is always the same for this slot."""
        if not self.jitter:
            return slot
        digest = hashlib.sha256(f"{self.name}:{slot.timestamp():.0f}".encode()).digest()
        return slot + self.jitter * (int.from_bytes(digest[:8], "big") / 2**64)


class Step(msgspec.Struct, frozen=True):
    """What is to be done now."""

    fire: tuple[datetime, ...]
    """Slots that get a job, oldest first."""
    skipped: int
    """How many missed slots get none."""
    upto: datetime | None
    """The last slot that this deals with; None: there is none."""
    next_at: datetime | None
    """When there is something to do next; None: nothing ever."""


def step(plan: Plan, after: datetime, now: datetime) -> Step:
    """Deal with the slots later than `after` that are due by now.

    A slot is missed when it is more than the grace period late. Missed slots are skipped, or the latest of them fires
    unless one that is not missed does, or all fire.
    """
    fire: list[datetime] = []
    held: datetime | None = None
    """A missed slot that is the latest of all so far."""
    upto, skipped, after = _jump(plan, after, now)
    due: datetime | None
    for looked, slot in enumerate(plan.timing.after(after)):
        due = plan.moment(slot)
        if due > now:
            break
        if looked == SCAN or len(fire) == BATCH:
            # More follow: the one that is held is open still.
            return Step(tuple(fire), skipped, upto, now)
        if plan.missed == "all" or now - due <= plan.grace:
            if held is not None:
                held, skipped = None, skipped + 1
            fire.append(slot)
        elif plan.missed == "skip":
            skipped += 1
        else:
            if held is not None:
                skipped, upto = skipped + 1, held
            held = slot
            continue
        upto = slot
    else:
        due = None
    if held is not None:
        fire.append(held)
        upto = held
    return Step(tuple(fire), skipped, upto, due)


def _jump(plan: Plan, after: datetime, now: datetime) -> tuple[datetime | None, int, datetime]:
    """Count what is surely missed without looking at each slot: a period of a second has 31 million a year."""
    timing = plan.timing
    if not isinstance(timing, Every) or plan.missed == "all":
        return None, 0, after
    last = timing.latest(now - plan.grace - plan.jitter) - timing.period  # the one after it may be the latest missed
    first = next(timing.after(after))
    if last < first:
        return None, 0, after
    return last, (last - first) // timing.period + 1, last


def upcoming(plan: Plan, after: datetime, number: int) -> list[datetime]:
    """The next slots."""
    return [slot for slot, _ in zip(plan.timing.after(after), range(number), strict=False)]
