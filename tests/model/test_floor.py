"""The floor's rule, without a database: what may appear behind the hint, and where the next rescan begins."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.model.floor import ASIDE, SLACK, START, Floor, Lane, Position, Snapshot

A, B = Lane("a", 0), Lane("b", 1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def snapshot(xmax: int, *running: int) -> Snapshot:
    return Snapshot(min(running, default=xmax), xmax, frozenset(running))


def scan(floor: Floor, seconds: float, ended: int, *running: int, paused: tuple[str, ...] = ()) -> bool:
    """A rescan that found nothing more to take, when xids up to `ended` had ended, except the running ones."""
    ends: list[Position | None] = [(at(seconds), 0)] * len(floor.lanes)
    assert floor.claimed(at(seconds), ends, paused)
    shown = snapshot(ended + 1, *(xid for xid in running if xid <= ended))
    return floor.observed(at(seconds), shown, running, ends, paused)


def safe(floor: Floor) -> Position:
    return floor.starts(rescan=True)[0]


def test_snapshots_are_read_as_postgres_writes_them() -> None:
    assert Snapshot.parse("10:20:10,14,15") == Snapshot(10, 20, frozenset({10, 14, 15}))
    assert Snapshot.parse("20:20:") == Snapshot(20, 20, frozenset())


def test_everything_starts_at_the_start() -> None:
    floor = Floor([A, B])
    assert floor.starts(rescan=False) == floor.starts(rescan=True) == [START, START]


def test_a_claim_moves_the_hint_and_only_a_rescan_moves_safe() -> None:
    floor = Floor([A])
    floor.claimed(at(0), [(at(-5), 7)], ())
    assert floor.starts(rescan=False) == [(at(-5), 7)]
    assert floor.starts(rescan=True) == [START]


def test_safe_is_the_previous_rescan_less_the_slack_when_nothing_runs() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    assert safe(floor) == START
    scan(floor, 1, 100)
    assert safe(floor) == (at(0) - SLACK, 0)


@pytest.mark.parametrize("ended", [101, 105], ids=["newer than all that ended", "older than some"])
def test_safe_stays_before_a_transaction_that_runs(ended: int) -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    scan(floor, 0.1, 101)
    scan(floor, 0.2, ended, 102)
    assert safe(floor) == (at(0.1) - SLACK, 0)
    scan(floor, 0.3, ended, 102)
    assert safe(floor) == (at(0.1) - SLACK, 0)
    scan(floor, 0.35, 105)
    assert safe(floor) == (at(0.3) - SLACK, 0)


def test_a_transaction_that_ends_between_snapshot_and_reading_stays_open_until_a_snapshot_shows_it() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    scan(floor, 0.1, 101, 102)
    ends: list[Position | None] = [(at(0.2), 0)]
    floor.claimed(at(0.2), ends, ())
    floor.observed(at(0.2), snapshot(104, 102), (), ends, ())
    assert safe(floor) == (at(0) - SLACK, 0)
    scan(floor, 0.25, 104)
    assert safe(floor) == (at(0.2) - SLACK, 0)


def test_a_transaction_met_at_the_first_rescan_holds_safe_at_the_start() -> None:
    floor = Floor([A])
    scan(floor, 0, 100, 90)
    scan(floor, 0.1, 100, 90)
    assert safe(floor) == START
    scan(floor, 0.15, 101)
    assert safe(floor) == (at(0.1) - SLACK, 0)


def test_a_long_transaction_is_set_aside_and_scanned_for_when_it_ends() -> None:
    floor = Floor([A, B])
    scan(floor, 0, 100)
    scan(floor, 0.1, 105, 102)
    for n in range(2, 50):
        assert not scan(floor, n / 10, 105 + n, 102)
    assert safe(floor) == (at(4.8) - SLACK, 0)
    assert scan(floor, 5, 200)
    assert floor.starts(rescan=True) == [(at(0) - SLACK, 0)] * 2
    assert not scan(floor, 5.05, 201)
    assert safe(floor) == (at(5) - SLACK, 0)


def test_it_is_set_aside_only_after_its_time() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    scan(floor, 1, 105, 102)
    scan(floor, 1 + ASIDE.total_seconds() - 0.01, 106, 102)
    assert safe(floor) == (at(0) - SLACK, 0)
    scan(floor, 1 + ASIDE.total_seconds(), 107, 102)
    assert safe(floor) > (at(1), 0)


def test_of_several_that_end_the_earliest_counts() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    scan(floor, 0.1, 103, 101)
    scan(floor, 0.2, 106, 101, 105)
    scan(floor, 0.6, 107, 101, 105)
    assert scan(floor, 0.7, 108)
    assert safe(floor) == (at(0) - SLACK, 0)


def test_xids_beyond_four_thousand_millions_are_widened() -> None:
    shown = snapshot(2**33 + 10)
    assert shown.widen(9) == 2**33 + 9
    assert shown.widen(50) == 2**33 + 50
    assert shown.widen(2**32 - 5) == 2**33 - 5
    assert snapshot(2**33 - 10).widen(3) == 2**33 + 3


def test_a_lane_that_was_not_reached_keeps_its_marks() -> None:
    floor = Floor([A, B])
    scan(floor, 0, 100)
    scan(floor, 1, 100)
    ends: list[Position | None] = [(at(1.5), 9), None]
    floor.claimed(at(2), ends, ())
    floor.observed(at(2), snapshot(110), (), ends, ())
    assert floor.starts(rescan=False) == [(at(1.5), 9), (at(1), 0)]
    assert floor.starts(rescan=True) == [(at(1) - SLACK, 0), (at(0) - SLACK, 0)]


def test_an_ended_transaction_is_scanned_for_in_a_lane_that_was_not_reached_since() -> None:
    floor = Floor([A, B])
    scan(floor, 0, 100)
    scan(floor, 0.1, 105, 102)
    scan(floor, 0.5, 106, 102)
    assert scan(floor, 0.6, 107)
    ends: list[Position | None] = [(at(0.6), 9), None]
    floor.claimed(at(0.7), ends, ())
    assert not floor.observed(at(0.7), snapshot(108), (), ends, ())
    assert floor.starts(rescan=True)[1] == (at(0) - SLACK, 0)


def test_a_paused_queue_starts_anew_when_it_is_resumed() -> None:
    floor = Floor([A, B])
    scan(floor, 0, 100)
    scan(floor, 1, 101, paused=("a",))
    assert floor.starts(rescan=False) == [START, (at(1), 0)]
    assert floor.starts(rescan=True) == [START, (at(0) - SLACK, 0)]
    scan(floor, 2, 102)
    assert floor.starts(rescan=True) == [(at(1) - SLACK, 0)] * 2


def test_a_claim_without_rescan_after_a_pause_leaves_the_rescan_at_the_start() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    scan(floor, 1, 101, paused=("a",))
    floor.claimed(at(2), [(at(2), 0)], ())
    assert floor.starts(rescan=False) == [(at(2), 0)]
    assert floor.starts(rescan=True) == [START]


@pytest.mark.parametrize(("step", "elapsed"), [(-1.0, 0.0), (-3600.0, 5.0), (0.5, 1.0)])
def test_a_clock_set_back_voids_the_scan_that_notices_it(step: float, elapsed: float) -> None:
    """That scan began from a floor ahead of the new time: it may have passed over rows, so it moves nothing."""
    floor = Floor([A])
    scan(floor, 0, 100)
    ends: list[Position | None] = [(at(step), 0)]
    assert not floor.claimed(at(step), ends, (), elapsed)
    assert floor.starts(rescan=False) == floor.starts(rescan=True) == [START]
    scan(floor, step + 0.1, 102)
    assert safe(floor) == START
    scan(floor, step + 0.2, 102)
    assert safe(floor) == (at(step + 0.1) - SLACK, 0)


def test_a_clock_that_is_merely_measured_late_is_not_set_back() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    assert floor.claimed(at(1), [(at(1), 0)], (), elapsed=1.02)


def test_after_a_reset_an_older_server_clock_is_welcome() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    floor.reset()
    assert floor.starts(rescan=True) == [START]
    assert floor.claimed(at(-60), [(at(-60), 0)], (), elapsed=1.0)


def test_a_reset_forgets_the_transactions_of_another_server() -> None:
    floor = Floor([A])
    scan(floor, 0, 100)
    scan(floor, 0.1, 105, 102)
    floor.reset()
    scan(floor, 1, 50, 40)
    assert safe(floor) == START
    scan(floor, 1.1, 51)
    assert safe(floor) == (at(1) - SLACK, 0)


def test_a_row_found_behind_lowers_the_hint_and_never_raises_it() -> None:
    floor = Floor([A, B])
    scan(floor, 0, 100)
    floor.lower(A, (at(-9), 3))
    assert floor.starts(rescan=False) == [(at(-9), 3), (at(0), 0)]
    floor.lower(A, (at(9), 3))
    assert floor.hint(A) == (at(-9), 3)


def test_what_is_remembered_stays_small() -> None:
    floor = Floor([A])
    for n in range(2000):
        scan(floor, n / 10, 1000 + n * 10, 999, *range(1000 + n * 10 - 5, 1000 + n * 10))
    assert len(floor._open) < 10


def test_within_a_rank_every_queue_comes_first_in_its_turn_with_its_own_marks() -> None:
    lanes = [Lane(queue, priority) for priority in (0, 1) for queue in "abc"]
    floor = Floor(lanes)
    floor.claimed(at(1), [(at(1), n) for n in range(6)], ())
    for order in ("bca", "cab", "abc"):
        floor.rotate()
        assert [(lane.queue, lane.priority) for lane in floor.lanes] == [(q, p) for p in (0, 1) for q in order]
        assert floor.starts(False) == [(at(1), lanes.index(lane)) for lane in floor.lanes]
