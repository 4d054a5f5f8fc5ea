"""Schedules in code: what is rejected when they are declared, and whose declaration counts among workers."""

from datetime import timedelta
from typing import Any

import pytest
from tests.schedules.conftest import MINUTE, NOON, Clock, Schedulers, add, minutes, row, settle, slots
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Holdfast, InvalidInput, NotFound
from holdfast.schedules import firing
from holdfast.schedules.declared import Declared

GONE = timedelta(seconds=firing.GONE + 1)


def declared(**options: Any) -> Declared:
    """A schedule `minutely` of a task `job`."""
    hf = Holdfast()
    every = options.pop("every", "1m")
    hf.every(every, name=options.pop("name", "minutely"), **options)(hf.task(name="job")(lambda n=0: None))
    (made,) = hf._schedules.values()
    return made


def test_several_schedules_of_one_task() -> None:
    hf = Holdfast()

    @hf.every("5m", jitter="10s", args={"region": "eu"})
    @hf.cron("0 7 * * 1-5", tz="Europe/Berlin", name="mornings", missed="skip", grace="5m", args={"region": "us"})
    @hf.task(queue="reports", max_attempts=2, version=3, ordered=True, key=lambda region: f"region:{region}")
    def report(region: str) -> str:
        return region

    assert report("eu") == "eu"
    every, cron = hf._schedules["report"], hf._schedules["mornings"]
    assert (cron.cron, cron.tz, cron.missed, cron.grace) == (
        "0 7 * * 1-5",
        "Europe/Berlin",
        "skip",
        "300.000000 seconds",
    )
    assert (every.every, every.jitter, every.missed) == ("300.000000 seconds", "10.000000 seconds", "latest")
    assert (bytes(every.args), bytes(cron.args)) == (b'{"region":"eu"}', b'{"region":"us"}')
    assert every.options == {
        "queue": "reports", "priority": 1, "max_attempts": 2, "version": 3, "ordered": True, "key": "region:eu",
    }  # fmt: skip
    assert every.digest != cron.digest


def test_options_of_the_jobs() -> None:
    hf = Holdfast()
    task = hf.task(name="job")(lambda: None)
    hf.every("5m", key="k", queue="q", priority=0, max_attempts=9, headers={"a": "b"})(task.options(priority=3))
    assert hf._schedules["job"].options == {
        "key": "k", "queue": "q", "priority": 0, "max_attempts": 9, "version": 1, "headers": {"a": "b"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cron": "0 7 * *"}, "cron: expected five fields"),
        ({"cron": "0 7 * * *", "tz": "Europe/Rom"}, "tz: expected the name of a time zone"),
        ({"every": "often"}, "every: expected a duration such as '90s'"),
        ({"every": "1m", "missed": "some"}, "missed: expected 'skip', 'latest' or 'all', got 'some'"),
        ({"every": "1m", "grace": "-1s"}, "grace: expected a duration"),
        ({"every": "1m", "jitter": "60s"}, "jitter: expected less than the period, which is every 1m"),
        ({"every": "1m", "args": {"m": 1}}, "m: is not an argument of job"),
        ({"every": "1m", "args": {"n": "x"}}, "n: Expected `int`, got `str`"),
        ({"every": "1m", "args": [1]}, "args: expected arguments by name"),
        ({"every": "1m", "priority": 7}, "priority: expected a whole number"),
        ({"every": "1m", "delay": "1m"}, "delay: is not an option of a schedule; it takes args"),
        ({"every": "1m", "name": "x" * 129}, "name: expected 1 to 128 characters"),
        ({"every": "1m", "name": "\U0001f600" * 100}, "name: expected at most 384 bytes"),
    ],
)
def test_what_cannot_work_is_rejected_when_it_is_declared(options: dict[str, Any], says: str) -> None:
    hf = Holdfast()

    @hf.task(name="job")
    def job(n: int = 0) -> None: ...

    with pytest.raises(ConfigurationError) as raised:
        decorate = (
            hf.cron(options.pop("cron"), **options) if "cron" in options else hf.every(options.pop("every"), **options)
        )
        decorate(job)
    assert says in str(raised.value)
    assert hf._schedules == {}


def test_the_order_of_decorators_and_names_given_twice() -> None:
    hf = Holdfast()
    with pytest.raises(ConfigurationError, match=r"above @hf\.task"):
        hf.every("5m")(lambda: None)  # type: ignore[type-var]
    task = hf.task(name="job")(lambda: None)
    hf.every("5m")(task)
    with pytest.raises(ConfigurationError, match="already a schedule 'job'; pass name="):
        hf.every("10m")(task)
    with pytest.raises(ConfigurationError, match="delay: is not for jobs of a schedule"):
        hf.every("5m", name="late")(task.options(delay="1m"))


async def test_jobs_of_a_unique_task_do_not_pile_up(inbox: Inbox, clock: Clock, scheduler: Schedulers) -> None:
    app = Holdfast()
    app.every("1m", name="minutely")(app.task(name="job", unique_arguments=True, unique_done=True)(lambda: None))
    one = scheduler(*app._schedules.values())
    for minute in range(4):
        clock.stop_at(NOON + minute * MINUTE)
        await settle(one)
    assert slots(inbox) == minutes([1]), "it waits, so the later slots find it"
    assert (row(inbox)["last_slot"], row(inbox)["skipped"]) == (NOON + 3 * MINUTE, 0)
    inbox.rows("delete from holdfast.inbox")  # it has ended
    clock.stop_at(NOON + 4 * MINUTE)
    await settle(one)
    assert slots(inbox) == minutes([4])


# Whose declaration counts


async def test_it_fires_and_one_removed_from_the_code_stops_and_says_since_when(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, hf: Holdfast
) -> None:
    with_it, without = scheduler(declared(args={"n": 1})), scheduler()
    await settle(with_it, without)
    clock.stop_at(NOON + MINUTE)
    await settle(without)
    assert slots(inbox) == [], "not by those who do not have it"
    await settle(with_it)
    assert slots(inbox) == minutes([1])
    (job,) = inbox.rows("select payload from holdfast.inbox")
    assert job["payload"] == {"type": "job", "n": 1}
    (state,) = await hf.list_schedules()
    assert (state.state, state.source, len(state.next_slots)) == ("active", "code", 5)

    clock.stop_at(NOON + GONE)  # the last worker that had it has ended
    await settle(without)
    (state,) = await hf.list_schedules()
    assert state.state == "not in code since 2031-05-05 12:00:00 UTC"
    assert (state.gone_since, state.next_slots) == (NOON, [])
    assert slots(inbox) == minutes([1])
    await hf.unschedule("minutely")
    assert await hf.list_schedules() == []


async def test_workers_say_that_they_have_it(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firing, "SEEN_EVERY", 0.0)  # by the loop's clock, at each look
    one = scheduler(declared())
    await settle(one)
    revision = row(inbox)["revision"]
    for seconds in (1, 50, 100, 150):
        clock.stop_at(NOON + timedelta(seconds=seconds))
        await settle(one)
        assert row(inbox)["seen_at"] == NOON + timedelta(seconds=seconds)
    assert row(inbox)["revision"] > revision


async def test_of_two_releases_the_newest_start_counts_and_the_last_one_that_is_left(
    inbox: Inbox, clock: Clock, scheduler: Schedulers
) -> None:
    old, new = scheduler(declared()), scheduler(declared(args={"n": 2}))
    await settle(old)
    await settle(new)
    clock.stop_at(NOON + MINUTE)
    await settle(old)
    assert slots(inbox) == [], "the old release does not fire it"
    await settle(new)
    assert slots(inbox) == minutes([1])
    again = scheduler(declared())  # a worker of the old release is started again, and is gone
    await settle(again)
    clock.stop_at(NOON + 2 * MINUTE)
    await settle(new)
    assert slots(inbox) == minutes([1]), "the new release waits until nobody has the old one"
    clock.stop_at(NOON + MINUTE + GONE)
    new._seen_at = -firing.SEEN_EVERY
    await settle(new)
    assert slots(inbox) == minutes([1, 2]), "then it takes over, and the latest slot is not lost"
    assert row(inbox)["args"] == {"n": 2}


async def test_another_timing_counts_from_its_start_on_and_a_pause_stays(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, hf: Holdfast
) -> None:
    await settle(scheduler(declared(missed="all")))
    await hf.pause_schedule("minutely")
    clock.stop_at(NOON + timedelta(seconds=200))
    new = scheduler(declared(missed="all", every="30s"))
    await settle(new)
    clock.stop_at(NOON + timedelta(seconds=240))
    await settle(new)
    assert slots(inbox) == []
    await hf.resume_schedule("minutely")
    clock.stop_at(NOON + timedelta(seconds=270))
    await settle(new)
    assert slots(inbox) == [NOON + timedelta(seconds=270)]


async def test_a_name_belongs_to_the_code_or_to_the_table(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, hf: Holdfast
) -> None:
    add(inbox, when="every => '1 hour'")
    await settle(scheduler(declared()))
    assert (row(inbox)["source"], row(inbox)["every"]) == ("row", timedelta(hours=1))
    await settle(scheduler(declared(name="coded")))
    task = hf.task(name="job")(lambda: None)
    with pytest.raises(InvalidInput, match="'coded' is a schedule of the code"):
        await hf.schedule("coded", task, every="1m")


# Verbs


async def test_run_time_schedules(inbox: Inbox, clock: Clock, scheduler: Schedulers, hf: Holdfast) -> None:
    @hf.task(queue="reports")
    def report(tenant: str) -> None: ...

    state = await hf.schedule("acme", report, cron="0 7 * * 1-5", tz="Europe/Berlin", args={"tenant": "acme"})
    assert [f"{slot:%a %d %H:%M}" for slot in state.next_slots] == [
        "Tue 06 05:00", "Wed 07 05:00", "Thu 08 05:00", "Fri 09 05:00", "Mon 12 05:00",
    ]  # fmt: skip
    assert (state.args, state.options["queue"], state.when) == (
        {"tenant": "acme"}, "reports", "cron 0 7 * * 1-5 Europe/Berlin",
    )  # fmt: skip
    state = await hf.schedule("acme", report, every="1m", args={"tenant": "acme"}, missed="all")
    assert (state.when, state.missed, state.tz) == ("every 1m", "all", "UTC"), "replaced"
    one = scheduler()
    await settle(one)
    clock.stop_at(NOON + 2 * MINUTE)
    await settle(one)
    assert slots(inbox, "acme") == minutes([1, 2])

    await hf.pause_schedule("acme")
    clock.stop_at(NOON + 4 * MINUTE)
    await settle(one)
    (state,) = await hf.list_schedules()
    assert (state.state, state.next_slots) == ("paused since 2031-05-05 12:02:00 UTC", [])
    job = await hf.trigger_schedule("acme")
    (made,) = inbox.rows("select * from holdfast.inbox where id = %s", job.id)
    assert (made["headers"], made["idempotency_key"]) == ({"schedule": "acme"}, None)
    assert made["payload"] == {"type": "report", "tenant": "acme"}
    await hf.resume_schedule("acme")
    await settle(one)
    assert slots(inbox, "acme") == minutes([1, 2]), "slots of the pause are not made up for"
    clock.stop_at(NOON + 5 * MINUTE)
    await settle(one)
    assert slots(inbox, "acme") == minutes([1, 2, 5])
    assert row(inbox, "acme")["skipped"] == 0

    await hf.unschedule("acme")
    for verb in (hf.unschedule, hf.pause_schedule, hf.resume_schedule, hf.trigger_schedule, hf.reset_schedule):
        with pytest.raises(NotFound, match="There is no schedule 'acme'"):
            await verb("acme")


async def test_a_resume_of_one_that_is_not_paused_changes_nothing(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, hf: Holdfast
) -> None:
    add(inbox, missed="all")
    await settle(one := scheduler())
    clock.stop_at(NOON + 3 * MINUTE)
    await hf.resume_schedule("minutely")
    await settle(one)
    assert slots(inbox) == minutes([1, 2, 3])


async def test_a_reset_after_the_clock_was_ahead(
    inbox: Inbox, clock: Clock, scheduler: Schedulers, hf: Holdfast
) -> None:
    add(inbox)
    await settle(one := scheduler())
    clock.stop_at(NOON + 3 * MINUTE)
    await settle(one)
    clock.stop_at(NOON + MINUTE)
    (state,) = await hf.list_schedules()
    assert "ahead of the database's clock; see holdfast schedule reset" in state.state
    await hf.reset_schedule("minutely")
    for minute in (2, 3, 4):
        clock.stop_at(NOON + minute * MINUTE)
        await settle(one)
    assert slots(inbox) == minutes([3, 2, 4]), "no second job for 12:03"


def test_verbs_for_code_that_does_not_await(inbox: Inbox) -> None:
    hf = Holdfast(inbox.url)
    task = hf.task(name="job")(lambda: None)
    assert hf.schedule_sync("hourly", task, every="1h").state == "active"
    hf.pause_schedule_sync("hourly")
    hf.resume_schedule_sync("hourly")
    hf.reset_schedule_sync("hourly")
    assert hf.trigger_schedule_sync("hourly").status_sync() == "pending"
    assert [each.name for each in hf.list_schedules_sync()] == ["hourly"]
    hf.unschedule_sync("hourly")
    assert hf.list_schedules_sync() == []
    hf.close_sync()
