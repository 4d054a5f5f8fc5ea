"""How a worker waits for more: awake while jobs come close and fast, else asleep; and what a call in vain costs."""

import pytest

from holdfast.worker.claiming.pace import BRISK, CLOSE, DEAF, FORGOTTEN, LINGER, LOOKS, Pace


def after(jobs: int, gap: float) -> tuple[Pace, float]:
    """The pace, and the time, after so many jobs at this distance."""
    pace, now = Pace(), 100.0
    for _ in range(jobs):
        now += gap
        pace.found(1, now)
    return pace, now


def test_it_stays_awake_for_jobs_that_come_thick_and_fast() -> None:
    pace, now = after(100, BRISK / 2)
    assert pace.stays_awake(now)
    assert pace.stays_awake(now + LINGER * 0.9)


def test_it_sleeps_between_jobs_that_come_one_by_one() -> None:
    pace, now = after(100, BRISK * 2)
    assert not pace.stays_awake(now)


def test_it_falls_asleep_when_the_stream_ends() -> None:
    pace, now = after(100, BRISK / 2)
    looks = [pace.stays_awake(now + LINGER * 1.1) for _ in range(LOOKS)]
    assert looks == [True] * (LOOKS - 1) + [False], "not before it has looked a few times: it may be us who were late"


def test_one_long_pause_is_enough_to_believe_that_the_stream_is_over() -> None:
    pace, now = after(100, BRISK / 2)
    pace.found(1, now + 1)
    assert not pace.stays_awake(now + 1)


def test_many_at_once_are_many() -> None:
    pace, now = Pace(), 100.0
    for _ in range(30):
        now += 0.05
        pace.found(100, now)
    assert pace.stays_awake(now)


def test_wake_ups_for_nothing_cost_more_and_more_up_to_a_bound() -> None:
    pace, now = after(1, 1)
    deaf = [pace.woken_for_nothing(now + n * 0.01) for n in range(10)]
    assert deaf[0] == 0, "the next call may be for us"
    assert deaf == sorted(deaf)
    assert deaf[-1] == DEAF


def test_wake_ups_for_nothing_are_forgotten_when_something_was_found_and_after_a_while() -> None:
    pace, now = after(1, 1)
    for n in range(5):
        pace.woken_for_nothing(now + n * 0.01)
    pace.found(1, now + 0.06)
    assert pace.woken_for_nothing(now + 0.07) == 0
    for n in range(5):
        pace.woken_for_nothing(now + 0.1 + n * 0.01)
    assert pace.woken_for_nothing(now + 0.2 + FORGOTTEN) == 0


def test_a_stream_is_noticed_after_a_few_jobs() -> None:
    pace, now = after(12, BRISK / 4)
    assert pace.stays_awake(now)


def test_it_naps_for_a_part_of_the_time_between_two_jobs_and_not_at_all_when_timers_are_too_coarse() -> None:
    pace, now = after(100, BRISK / 2)
    assert pace.nap(now) == pytest.approx(BRISK / 8)
    close, now = after(100, CLOSE / 2)
    assert close.nap(now) == 0
    assert close.nap(now + 0.04) == pytest.approx(0.01), "longer naps as nothing comes"
