"""When cron fires, found minute by minute with zoneinfo alone: the answer that the library must give.

What is expected is what Debian's cron does:

- An expression whose minutes and hours do not begin with `*` is for a fixed time. If the clocks jump over it, it fires
  once, in the first minute after the jump. If the clocks go back and show it twice, it fires the first time only.
- Every other expression follows real time. It fires in each minute in which the clocks match: not at all in an hour
  that they skip, and twice in an hour that they repeat.
- A day matches by its day of the month and its weekday: both, if one of the two fields begins with `*`; else either.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
NAMES = {name: str(n) for names, first in ((DAYS, 0), (MONTHS, 1)) for n, name in enumerate(names, first)}


def numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = (int(NAMES.get(end, end)) for end in span.split("-"))
        else:
            first = int(NAMES.get(span, span))
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Expression:
    def __init__(self, text: str) -> None:
        minute, hour, day, month, weekday = text.split()
        self.fixed = not minute.startswith("*") and not hour.startswith("*")
        minutes, hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.times = [h in hours and m in minutes for h in range(24) for m in range(60)]
        """For each minute of a day: does it match?"""
        self._days, self._months = numbers(day, 1, 31), numbers(month, 1, 12)
        self._weekdays = {n % 7 for n in numbers(weekday, 0, 7)}
        self._both = day.startswith("*") or weekday.startswith("*")
        self._known: dict[date, bool] = {}

    def on(self, day: date) -> bool:
        if day not in self._known:
            by_day, by_weekday = day.day in self._days, day.isoweekday() % 7 in self._weekdays
            matches = (by_day and by_weekday) if self._both else (by_day or by_weekday)
            self._known[day] = day.month in self._months and matches
        return self._known[day]

    def matches(self, clock: datetime) -> bool:
        return self.times[clock.hour * 60 + clock.minute] and self.on(clock.date())


Minute = tuple[datetime, date, int]
"""A minute in UTC; and what the clocks show then: the day, and the minute of the day."""


class Clocks:
    """What the clocks of a zone show, minute by minute, after `start` and until `end`."""

    def __init__(self, zone: ZoneInfo, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end
        self.all: list[Minute] = []
        self.new: list[Minute] = []
        """Those in which the clocks show a time for the first time."""
        self.skipped: list[tuple[datetime, list[datetime]]] = []
        """The minutes after a jump, and what was not shown because of it."""
        utc, latest = start, _shown(zone, start)
        while utc < end:
            utc += MINUTE
            at = _shown(zone, utc)
            minute = (utc, at.date(), at.hour * 60 + at.minute)
            self.all.append(minute)
            if at > latest:
                self.new.append(minute)
                if at - latest > MINUTE:
                    self.skipped.append((utc, [at - n * MINUTE for n in range(1, (at - latest) // MINUTE)]))
                latest = at

    def slots(self, expression: Expression) -> list[datetime]:
        """The minutes in which it fires."""
        times, on = expression.times, expression.on
        shown = self.new if expression.fixed else self.all
        found = [utc for utc, day, minute in shown if times[minute] and on(day)]
        if expression.fixed:
            late = [utc for utc, skipped in self.skipped if any(map(expression.matches, skipped))]
            found = sorted({*found, *late})
        return found


def _shown(zone: ZoneInfo, utc: datetime) -> datetime:
    return utc.astimezone(zone).replace(tzinfo=None, fold=0)


def changes(zone: ZoneInfo, first_year: int, last_year: int) -> list[datetime]:
    """Every minute in these years in which the clocks of the zone were changed, found by halving."""
    step, found = timedelta(hours=6), []
    at, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    while at < end:
        low, high = at, at + step
        if _offset(zone, low) != _offset(zone, high):
            while high - low > MINUTE:
                middle = low + (high - low) // 2 // MINUTE * MINUTE
                low, high = (middle, high) if _offset(zone, middle) == _offset(zone, low) else (low, middle)
            found.append(high)
        at += step
    return found


def _offset(zone: ZoneInfo, utc: datetime) -> timedelta | None:
    return utc.astimezone(zone).utcoffset()
