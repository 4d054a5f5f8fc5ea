"""Slots: right across every change of the clocks of ten years in forty zones, by an oracle that shares nothing."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.schedules.oracle import Clocks, Expression, changes

from holdfast import InvalidInput
from holdfast.schedules import zones
from holdfast.schedules.timing import ALIASES, Cron, Every, Timing, timing

YEARS = (2024, 2033)
ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "America/Asuncion",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Havana",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/Miquelon",
    "America/New_York",
    "America/Nuuk",
    "America/Port-au-Prince",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Almaty",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Nicosia",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/London",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Easter",
]
AROUND, NEAR = timedelta(hours=26), timedelta(minutes=150)
SPARSE = [
    "30 2 * * *",
    "0 3 * * *",
    "0 0 * * *",
    "30 0,1,2,3 * * *",
    "15,45 1-3 * * *",
    "0 2-4/2 * * *",
    "30 2 * * SUN",
    "5 0 1,15 * 6",
    "0 12 28-31 MAR,OCT *",
    "59 23 * * *",
    "0 * * * *",
    "*/30 2 * * *",
    "30 */2 * * *",
    "*/20 0 * * 5-7",
]
DENSE = ["* * * * *", "*/7 * * * *", "*/5 0-3 * * *", "1-59/2 1,2 * * *"]


def until(timing: Timing, after: datetime, end: datetime) -> list[datetime]:
    return list(takewhile(lambda slot: slot <= end, timing.after(after)))


def test_there_are_forty_zones_and_hundreds_of_changes() -> None:
    assert len(set(ZONES)) == 40
    assert sum(len(changes(ZoneInfo(name), *YEARS)) for name in ("Europe/Berlin", "America/Santiago")) == 40


@pytest.mark.parametrize("zone", ZONES)
def test_every_change_of_the_clocks_of_ten_years(zone: str) -> None:
    sparse, dense = ([(Cron.of(text, zone), Expression(text)) for text in texts] for texts in (SPARSE, DENSE))
    for change in changes(ZoneInfo(zone), *YEARS) or [datetime(2026, 3, 29, 1, tzinfo=UTC)]:
        for within, crons in ((AROUND, sparse), (NEAR, dense)):
            clocks = Clocks(ZoneInfo(zone), change - within, change + within)
            for cron, expression in crons:
                found = until(cron, clocks.start, clocks.end)
                assert found == clocks.slots(expression), f"{cron} from {clocks.start}"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Antarctica/Troll"])
def test_it_does_not_matter_where_one_starts(zone: str) -> None:
    """Also in the second of two repeated hours, in which cronsim returns slots of the first."""
    for change in changes(ZoneInfo(zone), 2026, 2027):
        clocks = Clocks(ZoneInfo(zone), change - timedelta(hours=6), change + AROUND)
        for text in ("30 2 * * *", "15,45 0-3 * * *", "*/20 * * * *", "0 1,23 * * *"):
            cron, expected = Cron.of(text, zone), clocks.slots(Expression(text))
            for start, _, _ in clocks.all[180:540:3]:
                later = [slot for slot in expected if slot > start][:2]
                found = cron.after(start + timedelta(seconds=1.5) if start.minute % 2 else start)
                assert [next(found) for _ in later] == later, f"{cron} from {start}"


def test_a_fixed_time_that_is_skipped_comes_when_the_clocks_have_jumped_and_a_repeated_one_comes_once() -> None:
    cron = Cron.of("30 2 * * *", "Europe/Berlin")
    march = until(cron, at("2026-03-28 12:00"), at("2026-03-30 12:00"))
    assert march == [at("2026-03-29 01:00"), at("2026-03-30 00:30")]
    october = until(cron, at("2026-10-24 12:00"), at("2026-10-26 12:00"))
    assert october == [at("2026-10-25 00:30"), at("2026-10-26 01:30")]
    assert until(cron, at("2026-10-25 01:10"), at("2026-10-26 12:00")) == october[1:]


def test_a_real_time_comes_twice_in_an_hour_that_is_repeated_and_not_in_one_that_is_skipped() -> None:
    cron = Cron.of("*/30 2 * * *", "Europe/Berlin")
    assert until(cron, at("2026-03-29 00:00"), at("2026-03-29 12:00")) == []
    assert len(until(cron, at("2026-10-24 12:00"), at("2026-10-25 12:00"))) == 4


def test_every_counts_from_the_epoch() -> None:
    every = Every.of("7m")
    found = until(every, at("2026-01-01 00:00"), at("2026-01-01 00:30"))
    assert len(found) == 4 and all(slot.timestamp() % 420 == 0 for slot in found)
    assert next(every.after(found[0])) == found[1], "later than a slot is the next slot"
    assert every.latest(found[0]) == every.latest(found[0] + timedelta(minutes=6)) == found[0]
    assert next(Every.of("1d").after(at("2026-03-28 12:00"))) == at("2026-03-29 00:00"), "in UTC"
    assert next(Every.of("1h").after(at("1969-12-31 22:30"))) == at("1969-12-31 23:00")


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    start = at("2026-01-01 00:00")
    written = Cron.of(ALIASES[alias], "Europe/Berlin").after(start)
    named = Cron.of(alias.upper(), "Europe/Berlin").after(start)
    assert [next(named) for _ in range(3)] == [next(written) for _ in range(3)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cron": "0 7 * *"}, "cron: expected five fields, minute, hour, day, month and weekday, such as"),
        ({"cron": "0 0 7 * * 1-5"}, "for seconds, use every"),
        ({"cron": "0 25 * * *"}, "the hour in '0 25 * * *' is not valid"),
        ({"cron": "@reboot"}, "expected five fields"),
        ({"cron": "0 0 30 2 *"}, "the day-of-month in '0 0 30 2 *' is not valid"),
        ({"cron": "0 0 * 2 MON#6"}, "the day-of-week in"),
        ({"cron": "0 0 29 2 *", "tz": "Europe/Rom"}, "tz: expected the name of a time zone, such as"),
        ({"cron": "0 7 * * *", "tz": "Europe"}, "tz: expected"),
        ({"cron": "0 7 * * *", "tz": "../etc/passwd"}, "tz: expected"),
        ({"cron": "0 7 * * *", "tz": ""}, "tz: expected"),
        ({"cron": "0 7 * * *", "tz": None}, "tz: expected"),
        ({"cron": 7}, "cron: expected text"),
        ({"every": "0s"}, "every: expected whole seconds, at least 1s, such as '5m', got '0s'"),
        ({"every": "1500ms"}, "every: expected whole seconds"),
        ({"every": "soon"}, "every: expected a duration"),
        ({"every": "5m", "tz": "Europe/Berlin"}, "tz: is for cron; every counts in UTC"),
        ({"every": "5m", "cron": "0 7 * * *"}, "every: expected either cron or every"),
        ({}, "cron: expected either cron or every"),
    ],
)  # fmt: skip
def test_what_is_no_timing_is_rejected_and_says_what_was_expected(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        timing(options.get("cron"), options.get("every"), options.get("tz", "UTC"))
    assert says in str(raised.value)


@pytest.mark.parametrize(("given", "words"), [("90m", "every 1h30m"), (1, "every 1s"), ("2d", "every 2d")])
def test_every_in_words(given: str, words: str) -> None:
    assert Every.of(given).words == words


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def test_the_release_of_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    assert zones.release() == f"{metadata.version('tzdata')}, from the package tzdata"
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path / "none"), str(tmp_path)))
    (tmp_path / "UTC").write_bytes(b"TZif")
    assert zones.release() == f"unknown, from {tmp_path}"
    (tmp_path / "tzdata.zi").write_text("# version 2026a\n# ddeps backzone zone.tab\n")
    assert zones.release() == f"2026a, from {tmp_path}"
