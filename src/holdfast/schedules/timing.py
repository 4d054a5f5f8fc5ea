"""When a schedule fires: its slots. Pure; every instant is in UTC.

Cron expressions have five fields, and mean what they mean to Debian's cron. On a day on which the clocks change:

    fixed time      neither the minutes nor the hours begin with `*`. If the clocks jump over it, it comes in the first
                    minute after the jump; if they show it twice, it comes the first time
    real time       all others, such as `*/15 * * * *`: whenever the clocks match, so not in an hour that they jump
                    over, and twice in an hour that they repeat

cronsim finds the times that match. Two of its answers cannot be used. Started in the second of two repeated hours, it
returns a fixed time of the first one, which is past. And it steps by whole hours through real time, so it misses a
match where the clocks change by half an hour (Lord Howe Island). So what it returns is compared in UTC, and for real
time it is asked about one stretch between two changes of the clocks at a time, in which they are plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ..errors import InvalidInput
from ..lazy import LazyModule
from ..model.durations import Duration, seconds

if TYPE_CHECKING:
    import zoneinfo

    import cronsim
else:  # most workers have no schedule with a time zone
    cronsim = LazyModule("cronsim")
    zoneinfo = LazyModule("zoneinfo")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(seconds=1)
_STEP = timedelta(hours=12)
"""Less than lies between two changes of the clocks."""
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = "minute, hour, day, month and weekday, such as '0 7 * * 1-5'"


class Every(msgspec.Struct, frozen=True, dict=True):
    """At every multiple of a period since 1970-01-01 00:00 UTC, the same for every host and after every restart."""

    period: timedelta

    @classmethod
    def of(cls, duration: Duration) -> Every:
        period = timedelta(seconds=seconds(duration, "every"))
        if period < SHORTEST or period.microseconds:
            raise InvalidInput("every", f"expected whole seconds, at least 1s, such as '5m', got {duration!r}")
        return cls(period)

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The slots later than this instant."""
        slot = EPOCH + ((instant - EPOCH) // self.period + 1) * self.period
        while True:
            yield slot
            slot += self.period

    def latest(self, instant: datetime) -> datetime:
        """The last slot up to this instant."""
        return EPOCH + (instant - EPOCH) // self.period * self.period

    @property
    def words(self) -> str:
        left, parts = int(self.period.total_seconds()), []
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            number, left = divmod(left, size)
            parts += [f"{number}{unit}"] if number else []
        return f"every {''.join(parts)}"


class Cron(msgspec.Struct, frozen=True, dict=True):
    """Whenever a cron expression matches the clocks of a time zone."""

    expression: str
    tz: str = "UTC"

    @classmethod
    def of(cls, expression: object, tz: object = "UTC") -> Cron:
        if not isinstance(expression, str):
            raise InvalidInput("cron", f"expected text with {_FIELDS}, got {type(expression).__name__}")
        cron = cls(" ".join(expression.split()), _checked_zone(tz))
        fields = cron._fields.split()
        if len(fields) != 5:
            more = "; for seconds, use every" if len(fields) == 6 else ""
            raise InvalidInput("cron", f"expected five fields, {_FIELDS}, got {expression!r}{more}")
        try:
            next(cron.after(EPOCH))
        except cronsim.CronSimError as error:
            field = str(error).removeprefix("Bad ")
            raise InvalidInput("cron", f"expected {_FIELDS}; the {field} in {expression!r} is not valid") from None
        except StopIteration:
            raise InvalidInput("cron", f"expected a time that exists, but {expression!r} matches no day") from None
        return cron

    @cached_property
    def zone(self) -> zoneinfo.ZoneInfo:
        return zoneinfo.ZoneInfo(self.tz)

    @cached_property
    def _fields(self) -> str:
        return ALIASES.get(self.expression.lower(), self.expression)

    @cached_property
    def _fixed_time(self) -> bool:
        minutes, hours, *_ = self._fields.split()
        return not minutes.startswith("*") and not hours.startswith("*")

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The slots later than this instant."""
        return self._fixed_times(instant) if self._fixed_time else self._real_times(instant)

    def _fixed_times(self, instant: datetime) -> Iterator[datetime]:
        for local in cronsim.CronSim(self._fields, instant.astimezone(self.zone)):
            slot = local.astimezone(UTC)
            if slot > instant:  # else it is of the first of two repeated hours
                instant = slot
                yield slot

    def _real_times(self, instant: datetime) -> Iterator[datetime]:
        known = begin = instant.replace(microsecond=0)
        while True:
            offset = self._offset(known)
            for clock in cronsim.CronSim(self._fields, (begin + offset).replace(tzinfo=None)):
                slot = clock.replace(tzinfo=UTC) - offset
                if (change := self._change(known, slot)) is not None:
                    known, begin = change, change - SHORTEST  # the change itself may be a slot
                    break
                known = slot
                yield slot
            else:
                return

    def _change(self, start: datetime, end: datetime) -> datetime | None:
        """The first instant in this time at which the clocks of the zone show another offset from UTC."""
        while start < end:
            high = min(start + _STEP, end)
            if self._offset(high) != self._offset(start):
                while high - start > SHORTEST:
                    middle = start + (high - start) // SHORTEST // 2 * SHORTEST
                    start, high = (middle, high) if self._offset(middle) == self._offset(start) else (start, middle)
                return high
            start = high
        return None

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.zone).utcoffset() or timedelta()

    @property
    def words(self) -> str:
        return f"cron {self.expression} {self.tz}"


Timing = Every | Cron


def _checked_zone(tz: object) -> str:
    if isinstance(tz, str):
        try:
            return zoneinfo.ZoneInfo(tz).key
        except (KeyError, ValueError, OSError):  # not there, no name of a zone, a folder of zones
            pass
    raise InvalidInput("tz", f"expected the name of a time zone, such as 'Europe/Berlin', got {tz!r}")


def timing(cron: object, every: Duration | None, tz: object = "UTC") -> Timing:
    """The timing of these options; exactly one of `cron` and `every`."""
    if (cron is None) == (every is None):
        raise InvalidInput("cron" if every is None else "every", "expected either cron or every")
    if every is None:
        return Cron.of(cron, tz)
    if tz != "UTC":
        raise InvalidInput("tz", f"is for cron; every counts in UTC, got {tz!r}")
    return Every.of(every)
