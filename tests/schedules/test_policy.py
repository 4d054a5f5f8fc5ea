"""Which slots fire, which are missed: by the policy, and by nothing else. Pure."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.schedules import policy
from holdfast.schedules.policy import POLICIES, Missed, Plan, Step, step
from holdfast.schedules.timing import Cron, Every, Timing

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MINUTELY: list[Timing] = [Every.of("1m"), Cron.of("* * * * *", "Europe/Berlin")]


def minutes(*numbers: int) -> tuple[datetime, ...]:
    return tuple(NOON + n * MINUTE for n in numbers)


def plan(timing: Timing = MINUTELY[0], missed: Missed = "latest", grace: float = 30, jitter: float = 0) -> Plan:
    return Plan("minutely", timing, missed, timedelta(seconds=grace), timedelta(seconds=jitter))


@pytest.mark.parametrize("timing", MINUTELY)
@pytest.mark.parametrize("missed", POLICIES)
def test_a_slot_in_time_fires_whatever_the_policy(timing: Timing, missed: Missed) -> None:
    (slot,) = minutes(1)
    for late in (0, 5, 30):
        now = slot + timedelta(seconds=late)
        assert step(plan(timing, missed), NOON, now) == Step((slot,), 0, slot, slot + MINUTE)
    before = slot - timedelta(seconds=1)
    assert step(plan(timing, missed), NOON, before) == Step((), 0, None, slot)


@pytest.mark.parametrize("timing", MINUTELY)
def test_after_a_stop_the_policy_decides_about_what_was_missed(timing: Timing) -> None:
    now, following = NOON + timedelta(minutes=5, seconds=40), NOON + 6 * MINUTE
    last = minutes(5)[0]
    assert step(plan(timing, "skip"), NOON, now) == Step((), 5, last, following)
    assert step(plan(timing, "latest"), NOON, now) == Step((last,), 4, last, following)
    assert step(plan(timing, "all"), NOON, now) == Step(minutes(1, 2, 3, 4, 5), 0, last, following)


@pytest.mark.parametrize("timing", MINUTELY)
def test_a_slot_in_time_is_the_latest_so_nothing_missed_fires_with_it(timing: Timing) -> None:
    now = NOON + timedelta(minutes=5, seconds=10)
    for missed in ("skip", "latest"):
        assert step(plan(timing, missed), NOON, now) == Step(minutes(5), 4, minutes(5)[0], NOON + 6 * MINUTE)


def test_all_slots_within_the_grace_period_fire() -> None:
    now = NOON + timedelta(minutes=5, seconds=10)
    assert step(plan(grace=130), NOON, now).fire == minutes(3, 4, 5)


@pytest.mark.parametrize("timing", MINUTELY)
@pytest.mark.parametrize("missed", POLICIES)
def test_a_long_stop_is_dealt_with_in_bounded_steps(
    timing: Timing, missed: Missed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "SCAN", 7)
    monkeypatch.setattr(policy, "BATCH", 5)
    for stopped in range(40):
        now = NOON + stopped * MINUTE + timedelta(seconds=40)
        fired: list[datetime] = []
        skipped, after = 0, NOON
        for _ in range(50):
            done = step(plan(timing, missed), after, now)
            assert len(done.fire) <= 5
            fired += done.fire
            skipped += done.skipped
            after = done.upto or after
            if done.next_at != now:
                break
        assert done.next_at == NOON + (stopped + 1) * MINUTE
        expected = {
            "skip": [],
            "latest": list(minutes(stopped))[: stopped or 0],
            "all": list(minutes(*range(1, stopped + 1))),
        }
        assert fired == expected[missed]
        assert len(fired) + skipped == stopped


@pytest.mark.parametrize("missed", POLICIES)
def test_steps_taken_at_any_times_fire_each_slot_once_or_count_it(missed: Missed) -> None:
    chance = random.Random(missed)
    for _ in range(200):
        jitter = chance.choice([0, 20, 50, 200])
        it = plan(chance.choice(MINUTELY), missed, chance.choice([0, 30, 90]), jitter)
        fired: list[datetime] = []
        skipped, after, now = 0, NOON, NOON
        while now < NOON + 60 * MINUTE:
            now += timedelta(seconds=chance.choice([1, 30, 70, 400]))
            done = step(it, after, now)
            assert all(it.moment(slot) <= now for slot in done.fire), "none before its time"
            fired += done.fire
            skipped += done.skipped
            after = done.upto or after
        assert fired == sorted(set(fired))
        due = sum(it.moment(slot) <= now for slot in minutes(*range(1, 80)))
        assert len(fired) + skipped <= due, "with a jitter longer than the period, slots may wait for one before them"
        assert len(fired) + skipped == due or jitter == 200
        assert skipped == 0 or missed != "all"


def test_a_year_of_seconds_is_counted_and_not_walked() -> None:
    it = Plan("s", Every.of("1s"), "skip")
    done = step(it, NOON - timedelta(days=365), NOON)
    assert (len(done.fire), done.skipped) == (31, 365 * 86400 - 31)


def test_jitter_is_the_same_for_everyone_and_spread_over_its_length() -> None:
    it = plan(jitter=600)
    late = [(it.moment(slot) - slot).total_seconds() for slot in minutes(*range(200))]
    assert late == [(plan(jitter=600).moment(slot) - slot).total_seconds() for slot in minutes(*range(200))]
    assert 0 <= min(late) < 60 and 540 < max(late) < 600
    assert len({round(n) for n in late}) > 150
    assert (
        late[1] != (Plan("other", MINUTELY[0], jitter=it.jitter).moment(NOON + MINUTE) - NOON - MINUTE).total_seconds()
    )
