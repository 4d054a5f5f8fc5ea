"""One job per slot, whatever happens to the hosts and to the clock; missed slots by policy only."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.schedules.conftest import MINUTE, NOON, Clock, Schedulers, add, minutes, row, settle, slots
from tests.support.pooler import database_at, direct
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast.db.database import Database
from holdfast.errors import Unreachable
from holdfast.model.occurrences import Occurrences, Subscriber
from holdfast.schedules import firing, policy
from holdfast.schedules.policy import POLICIES
from holdfast.worker.log_lines import LogLines


async def test_a_slot_fires_when_it_is_due_and_once(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    add(inbox)
    one = scheduler()
    await settle(one)
    assert slots(inbox) == []
    assert row(inbox)["next_at"] == NOON + MINUTE
    for seconds in (59, 60, 60, 61, 90, 119, 120, 121):
        clock.stop_at(NOON + timedelta(seconds=seconds))
        await settle(one)
        assert slots(inbox) == minutes(range(1, seconds // 60 + 1))
    assert row(inbox)["last_slot"] == NOON + 2 * MINUTE
    (job,) = inbox.rows("select * from holdfast.inbox where id = %s", row(inbox)["last_job"])
    assert job["idempotency_key"] == "schedule:minutely:2031-05-05T12:02:00Z"
    assert (job["kind"], job["queue"], job["max_attempts"], job["payload"]) == ("job", "default", 5, {"type": "job"})
    assert job["headers"] == {"schedule": "minutely", "slot": "2031-05-05T12:02:00Z"}


async def test_it_sleeps_until_the_next_slot_and_ten_seconds_at_most(
    inbox: Inbox, clock: Clock, scheduler: Schedulers
) -> None:
    one = scheduler()
    assert await one.round() == firing.LONGEST
    add(inbox)
    await settle(one)
    for seconds, wait in ((0, 10), (49, 10), (51, 9), (59.5, 0.5)):
        clock.stop_at(NOON + timedelta(seconds=seconds))
        assert await one.round() == pytest.approx(wait)


async def test_two_schedulers_at_once_fire_each_slot_once(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    for n in range(3):
        add(inbox, f"schedule {n}")
    hosts = [scheduler() for _ in range(4)]
    for minute in range(1, 11):
        clock.stop_at(NOON + minute * MINUTE)
        await asyncio.gather(*(host.round() for host in hosts))
    await settle(*hosts)
    for n in range(3):
        assert slots(inbox, f"schedule {n}") == minutes(range(1, 11))


async def test_a_scheduler_that_computed_before_another_fired_does_nothing(
    inbox: Inbox, clock: Clock, scheduler: Schedulers
) -> None:
    """It has read the schedule, and fires when the other has committed."""
    add(inbox)
    one, two = scheduler(), scheduler()
    await settle(one, two)
    clock.stop_at(NOON + MINUTE)
    (read,) = await two._look(10, 10)
    await settle(one)
    assert await two._deal_with(read) is False
    assert slots(inbox) == minutes([1])


async def test_one_that_is_locked_is_passed_over_and_the_others_fire(
    inbox: Inbox, clock: Clock, scheduler: Schedulers
) -> None:
    add(inbox, "locked")
    add(inbox, "other")
    one = scheduler()
    await settle(one)
    clock.stop_at(NOON + MINUTE)
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as owner:
        await owner.execute("select from holdfast.schedules where name = 'locked' for update")
        assert 0 < await one.round() <= firing.LOST, "it comes back soon"
        assert (slots(inbox, "locked"), slots(inbox, "other")) == ([], minutes([1]))
    await settle(one)
    assert slots(inbox, "locked") == minutes([1])


GATE = """
    create function public.gate() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$;
    create trigger gate before insert on holdfast.inbox for each row execute function public.gate()
"""


async def test_a_host_that_dies_before_the_commit_leaves_nothing_and_another_fires_the_slot(
    inbox: Inbox, clock: Clock, scheduler: Schedulers
) -> None:
    """Four times, its session is ended in the middle of the statement, when the schedule is locked."""
    add(inbox)
    await settle(scheduler())
    clock.stop_at(NOON + MINUTE)
    inbox.rows(GATE)
    for _ in range(4):
        async with await psycopg.AsyncConnection.connect(direct(inbox.url), autocommit=True) as gate:
            await gate.execute("select pg_advisory_lock(1)")
            dies = asyncio.create_task(scheduler().round())
            await until(lambda: bool(inbox.one("select count(*) from pg_locks where not granted")))
            assert 0 < await scheduler().round() <= firing.LOST, "the schedule is locked"
            inbox.rows("select pg_terminate_backend(pid) from pg_locks where not granted")
            with pytest.raises(Unreachable):
                await dies
        assert slots(inbox) == []
        assert row(inbox)["last_slot"] is None
    await settle(scheduler())
    assert slots(inbox) == minutes([1])


# A stopped fleet


@pytest.mark.parametrize("when", ["every => '1 minute'", "cron => '* * * * *'"])
@pytest.mark.parametrize("missed", POLICIES)
async def test_after_a_stopped_fleet_the_policy_decides(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, missed: str, when: str
) -> None:
    add(inbox, when=when, missed=missed)
    await settle(scheduler())
    clock.stop_at(NOON + MINUTE)
    await settle(scheduler())
    clock.stop_at(NOON + timedelta(minutes=7, seconds=45))  # nobody was there
    await settle(scheduler(), scheduler())
    later = {"skip": [], "latest": [7], "all": [2, 3, 4, 5, 6, 7]}[missed]
    assert slots(inbox) == minutes([1, *later])
    assert row(inbox)["skipped"] == 6 - len(later)
    clock.stop_at(NOON + 8 * MINUTE)
    await settle(scheduler())
    assert slots(inbox) == minutes([1, *later, 8])


async def test_within_the_grace_period_no_slot_is_missed(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    add(inbox, missed="skip", grace="2 minutes")
    await settle(scheduler())
    clock.stop_at(NOON + 3 * MINUTE)
    await settle(scheduler())
    assert slots(inbox) == minutes([1, 2, 3])
    assert row(inbox)["skipped"] == 0


@pytest.mark.parametrize("missed", POLICIES)
async def test_a_long_stop_goes_in_batches_and_a_kill_between_them_loses_nothing(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, missed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "BATCH", 7)
    monkeypatch.setattr(policy, "SCAN", 9)
    add(inbox, when="cron => '* * * * *'", missed=missed)
    await settle(scheduler())
    clock.stop_at(NOON + timedelta(minutes=50, seconds=45))
    for _ in range(30):  # each host deals with one batch, and is gone
        host = scheduler()
        rows = await host._look(None, None)
        await asyncio.gather(*(host._deal_with(read) for read in rows))
    await settle(scheduler())
    assert slots(inbox) == {"skip": [], "latest": minutes([50]), "all": minutes(range(1, 51))}[missed]
    assert row(inbox)["skipped"] == {"skip": 50, "latest": 49, "all": 0}[missed]


# The clock


async def test_a_clock_that_is_set_back_fires_nothing_twice(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    add(inbox)
    one = scheduler()
    for minute in (0, 1, 2, 3, 1, 2, 3, 4, 2, 5):
        clock.stop_at(NOON + minute * MINUTE)
        await settle(one, scheduler())
    assert slots(inbox) == minutes([1, 2, 3, 4, 5])


async def test_a_clock_that_was_ahead_holds_a_schedule_up_until_it_is_reset(
    inbox: Inbox, clock: Clock, scheduler: Schedulers
) -> None:
    add(inbox, missed="all")
    one = scheduler()
    await settle(one)
    clock.stop_at(NOON + 10 * MINUTE)
    await settle(one)
    clock.stop_at(NOON + 2 * MINUTE)  # somebody saw the mistake
    await settle(one)
    assert slots(inbox) == minutes(range(1, 11))
    inbox.rows("update holdfast.schedules set since = holdfast.clock(), last_slot = null, next_at = null")
    for minute in range(3, 14):
        clock.stop_at(NOON + minute * MINUTE)
        await settle(one)
    assert slots(inbox) == minutes(range(1, 14)), "what has a job gets no second one"


async def test_any_steps_of_the_clock_and_any_hosts(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    chance = random.Random(1)
    for missed in POLICIES:
        add(inbox, missed, when="cron => '* * * * *'", missed=missed)
    hosts = [scheduler() for _ in range(3)]
    await settle(*hosts)
    now, latest = NOON, NOON
    for _ in range(40):
        now += timedelta(seconds=chance.choice([1, 20, 40, 70, 200, -30, -100]))
        latest = max(latest, now)
        clock.stop_at(now)
        await asyncio.gather(*(host.round() for host in hosts if chance.random() < 0.7))
    clock.stop_at(latest)
    await settle(*hosts)
    due = (latest - NOON) // MINUTE
    for missed in POLICIES:
        found = slots(inbox, missed)
        assert found == sorted(set(found)), "at most one job per slot, in order"
        assert len(found) + row(inbox, missed)["skipped"] == due, "each has fired or is counted"
    assert slots(inbox, "all") == minutes(range(1, due + 1))


async def test_across_a_change_of_the_clocks(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    """Berlin, 30 March 2031: from 02:00 to 03:00, at 01:00 UTC."""
    start = datetime.fromisoformat("2031-03-30T00:00:00+00:00")
    clock.stop_at(start)
    for name, cron in (("fixed", "30 2 * * *"), ("real", "*/30 2-3 * * *")):
        add(inbox, name, when=f"cron => '{cron}'", tz="Europe/Berlin", since=start)
    one = scheduler()
    for minute in range(0, 181, 5):
        clock.stop_at(start + minute * MINUTE)
        await settle(one)
    assert slots(inbox, "fixed") == [start + 60 * MINUTE]
    assert slots(inbox, "real") == [start + 60 * MINUTE, start + 90 * MINUTE]


# What is reported


class Told(Subscriber):
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def schedule_fired(self, schedule: str, slots: Sequence[datetime], jobs: Sequence[UUID]) -> None:
        self.heard.append((schedule, "fired", len(slots), len(jobs)))

    def schedule_missed(self, schedule: str, slots: int) -> None:
        self.heard.append((schedule, "missed", slots))

    def schedule_failed(self, schedule: str | None, error: Exception) -> None:
        self.heard.append((schedule, "failed", str(error)[:5]))


async def test_what_was_fired_missed_and_failed_is_reported_once(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, caplog: pytest.LogCaptureFixture
) -> None:
    add(inbox)
    add(inbox, "bad", when="cron => 'at noon'")
    told = Told()
    one = scheduler(occurrences=Occurrences(told, LogLines()))
    await settle(one)
    clock.stop_at(NOON + timedelta(minutes=3, seconds=5))
    await settle(one)
    clock.stop_at(NOON + timedelta(minutes=3, seconds=30))
    await settle(one)
    inbox.rows("update holdfast.schedules set last_slot = null, since = %s, next_at = null", NOON + 2 * MINUTE)
    await settle(one)
    assert told.heard == [
        ("bad", "failed", "cron:"),
        ("minutely", "fired", 1, 1),
        ("minutely", "missed", 2),
        ("minutely", "fired", 1, 0),
    ]
    assert "schedule bad cannot fire: cron: expected five fields" in caplog.text
    assert "schedule minutely: 2 slots were missed and are skipped" in caplog.text


# Rows of any program


async def test_a_change_by_plain_sql_counts_from_then_on(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    add(inbox, missed="all")
    one = scheduler()
    await settle(one)
    clock.stop_at(NOON + timedelta(seconds=150))
    inbox.rows("update holdfast.schedules set every = '30 seconds'")
    assert row(inbox)["next_at"] is None
    clock.stop_at(NOON + timedelta(seconds=185))
    await settle(one)
    assert slots(inbox) == [NOON + 3 * MINUTE], "and slots of the timing before are no longer its own"


async def test_terms_of_a_row_are_those_of_its_jobs(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    options = (
        '{"queue": "mail", "key": "k", "priority": 0, "max_attempts": 2, "version": 3, "headers": {"a": "b"},'
        ' "ordered": true, "on_failure": "skip"}'
    )
    add(inbox, args='{"n": 1}', options=options)
    await settle(one := scheduler())
    clock.stop_at(NOON + MINUTE)
    await settle(one)
    (job,) = inbox.rows("select * from holdfast.inbox")
    assert job["payload"] == {"type": "job", "n": 1}
    assert job["headers"] == {"a": "b", "schedule": "minutely", "slot": "2031-05-05T12:01:00Z"}
    found = [job[name] for name in ("queue", "partition_key", "priority", "max_attempts", "payload_version")]
    assert found == ["mail", "k", 0, 2, 3]
    assert (job["ordered"], job["skips"]) == (True, True)


async def test_jitter_moves_a_slot_and_not_its_name(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    add(inbox, jitter="50 seconds")
    one = scheduler()
    await settle(one)
    due = row(inbox)["next_at"]
    assert NOON + MINUTE < due < NOON + timedelta(seconds=110)
    clock.stop_at(due - timedelta(milliseconds=1))
    await settle(one)
    assert slots(inbox) == []
    clock.stop_at(due)
    await settle(one)
    assert slots(inbox) == minutes([1])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"when": "cron => 'at noon'"}, "cron: expected five fields"),
        ({"when": "cron => '0 7 * * *'", "tz": "Mars/Olympus"}, "tz: expected the name of a time zone"),
        ({"options": '{"priority": 9}'}, "violates check constraint"),
        ({"options": '{"priority": "high"}'}, "invalid input syntax"),
    ],
)
async def test_a_row_that_cannot_fire_says_why_and_holds_up_nobody(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, columns: dict[str, str], says: str
) -> None:
    add(inbox, "bad", **columns)
    add(inbox)
    one = scheduler()
    await settle(one)
    clock.stop_at(NOON + MINUTE)
    await settle(one)
    assert slots(inbox) == minutes([1])
    assert says in row(inbox, "bad")["error"]
    if "options" in columns:
        inbox.rows("update holdfast.schedules set options = '{}'")
        clock.stop_at(NOON + MINUTE + timedelta(seconds=11))
        await settle(one)
        assert slots(inbox, "bad") == minutes([1]), "within the grace period, nothing is lost"
        assert row(inbox, "bad")["error"] is None


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ("('a', 'job', null, null)", "schedules_has_either_cron_or_every"),
        ("('a', 'job', '* * * * *', '1 minute')", "schedules_has_either_cron_or_every"),
        ("('a', 'job', null, '1 month')", "schedules_every_is_whole_seconds_without_months"),
        ("('a', 'job', null, '1.5 seconds')", "schedules_every_is_whole_seconds_without_months"),
        ("('a', 'job', null, '0')", "schedules_every_is_whole_seconds_without_months"),
        ("('', 'job', null, '1 minute')", "schedules_name_is_1_to_128_characters"),
        ("('a', '', null, '1 minute')", "schedules_kind_is_1_to_128_characters"),
    ],
)
def test_rows_that_make_no_sense_are_rejected_in_words(inbox: Inbox, values: str, constraint: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        inbox.rows(f"insert into holdfast.schedules (name, kind, cron, every) values {values}")


# Outages


class Elsewhere(Database, frozen=True):
    """Its statements fail."""

    def sql(self, room: str, name: str) -> str:
        return "select 1 / 0"


async def test_an_error_of_a_look_is_retried(inbox: Inbox, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "LONGEST", 0.01)
    database = database_at(inbox.url)
    one = firing.Scheduler(Elsewhere(database.url, database.schema, database.pooler))
    task = asyncio.create_task(one.run())
    await asyncio.sleep(0.1)
    assert not task.done()
    add(inbox)
    one._link.database = database
    await until(lambda: row(inbox)["next_at"] is not None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
