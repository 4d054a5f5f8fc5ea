"""The numbers: gauges that are measured and stored, and what attempts did, by the minute."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.housekeeping.rows import claimed, put
from tests.support.inbox import Session
from tests.support.workers import Inbox

from holdfast.housekeeping.loop import Housekeeper
from holdfast.model.numbers import Count, Gauge
from holdfast.views import numbers

PAST, FUTURE = "-1 minute", "1 hour"


async def measured(one: Session, most: int = 1000, pages: int = 2000) -> dict[tuple[str, ...], Gauge]:
    rows = await one.connection.fetch(
        "select name, value, queue, kind, label, exact from holdfast.measure($1, $2)", most, pages
    )
    return {(row["name"], row["queue"], row["kind"], row["label"]): Gauge(*row) for row in rows}


def jobs(gauges: dict[tuple[str, ...], Gauge], queue: str) -> dict[str, float]:
    return {key[3]: gauge.value for key, gauge in gauges.items() if key[:2] == ("jobs", queue)}


def fill(inbox: Inbox) -> None:
    """Of every state one row, or another number that tells them apart."""
    states: tuple[dict[str, Any], ...] = (
        {"available_at": "now"},
        {"available_at": "tomorrow"},
        {"available_at": "tomorrow", "attempts": 1},
        {"status": "dead_letter", "dead_at": "now", "attempts": 5},
        {"status": "blocked", "ordered": True},
        {"ordered": True, "partition_key": "in order"},
        {"owned": True, "queue": "owned", "partition_bucket": 700},
    )
    for number, columns in enumerate(states, start=1):
        for n in range(number):
            put(inbox, **{"partition_key": f"k{number}.{n}", **columns})
    claimed(inbox, left=FUTURE, partition_key="runs")


EXPECTED = {
    "pending": 1 + 2 + 3 + 6, "due": 1 + 6, "scheduled": 2, "sleeping": 0, "retrying": 3, "processing": 1,
    "blocked": 5, "dead_letters": 4,
}  # fmt: skip


async def test_a_small_inbox_is_counted_exactly(inbox: Inbox, one: Session) -> None:
    fill(inbox)
    found = await measured(one)
    assert jobs(found, "default") == EXPECTED
    assert jobs(found, "owned")["pending"] == 7
    assert all(gauge.exact for key, gauge in found.items() if key[0] == "jobs")


async def test_lanes_are_counted_exactly_in_a_large_inbox(inbox: Inbox, one: Session) -> None:
    fill(inbox)
    found = await measured(one, most=8, pages=0)  # it may look at no page, so at the lanes only
    assert jobs(found, "default") == EXPECTED
    assert jobs(found, "owned")["pending"] == 7
    assert all(gauge.exact for key, gauge in found.items() if key[0] == "jobs")


async def test_full_lanes_are_estimated_and_the_others_are_not(inbox: Inbox, one: Session) -> None:
    inbox.rows(
        "insert into holdfast.inbox (queue, partition_key, partition_bucket, payload, available_at)"
        """ select 'full', 'k', 1, jsonb_build_object('type', 't', 'pad', repeat('x', 400)), now()"""
        " from generate_series(1, 5000)"
    )
    for _ in range(3):
        put(inbox, queue="small")
    pages = inbox.one("select pg_relation_size('holdfast.inbox') / 8192")
    found = await measured(one, most=100, pages=pages // 2)
    assert jobs(found, "small")["pending"] == 3
    assert found["jobs", "small", "", "pending"].exact
    full = found["jobs", "full", "", "pending"]
    assert not full.exact
    assert 2500 < full.value < 10_000


async def test_dead_letters_beyond_the_limit_are_estimated_for_every_queue(inbox: Inbox, one: Session) -> None:
    for n in range(20):
        put(inbox, queue=f"q{n % 2}", status="dead_letter", dead_at="now", attempts=5)
    found = await measured(one, most=5, pages=0)
    assert not found["jobs", "q0", "", "dead_letters"].exact


async def test_claim_ages_of_free_ordered_and_owned_queues(inbox: Inbox, one: Session) -> None:
    for queue, columns in (("free", {}), ("ordered", {"ordered": True}), ("owned", {"owned": True})):
        for bucket, seconds in ((3, 60), (900, 600), (1000, 5)):
            id = put(
                inbox, queue=queue, partition_bucket=bucket, partition_key=f"k{bucket}", priority=bucket % 4, **columns
            )
            inbox.rows(
                "update holdfast.inbox set available_at = now() - make_interval(secs => %s) where id = %s", seconds, id
            )
    put(inbox, queue="later", available_at="tomorrow")
    inbox.rows(
        "update holdfast.inbox set available_at = now() - interval '1 day' where id = %s", put(inbox, queue="hold.x")
    )
    found = await measured(one)
    ages = {key[1]: gauge.value for key, gauge in found.items() if key[0] == "claim_age"}
    assert ages.keys() == {"free", "ordered", "owned"}
    assert all(600 <= age < 660 for age in ages.values()), ages


async def test_jobs_that_no_live_worker_can_run(inbox: Inbox, one: Session) -> None:
    inbox.rows(
        "insert into holdfast.workers (id, status, metadata, last_seen_at) values ('w', 'alive',"
        """ '{"queues": ["default"], "kinds": {"known": [1, 2]}}', now())"""
    )
    for type, version, queue in (("known", 2, "default"), ("known", 3, "default"), ("other", 1, "default"),
                                 ("known", 1, "elsewhere")):  # fmt: skip
        put(inbox, payload=f'{{"type": "{type}"}}', payload_version=version, queue=queue)
    put(inbox, payload="{}")
    put(inbox, payload='{"type": "other"}', available_at="tomorrow")
    rows = await one.connection.fetch(
        "select queue, kind, version, rows, reason, more from holdfast.unclaimable(array['default', 'elsewhere'], 500)"
    )
    assert {(row["queue"], row["kind"], row["version"]): row["reason"] for row in rows} == {
        ("default", "known", 3): "no live worker knows this version",
        ("default", "other", 1): "no live worker knows this kind",
        ("default", "(none)", 1): 'the payload has no "type"',
        ("elsewhere", "known", 1): "no live worker serves this queue",
    }
    assert not any(row["more"] for row in rows)
    found = await measured(one)
    assert found["unclaimable", "default", "other", ""].value == 1


async def test_workflows_by_state(inbox: Inbox, one: Session) -> None:
    inbox.rows(
        "insert into holdfast.kinds (kind, version, app, arguments, workflow) values ('flow', 1, 'shop', '{}', true)"
    )
    flow: dict[str, Any] = {"payload": '{"type": "flow"}'}
    put(inbox, **flow)
    put(inbox, **flow, available_at="tomorrow", lease_generation=3)
    put(inbox, **flow, available_at="tomorrow", lease_generation=3)
    put(inbox, **flow, attempts=1)
    claimed(inbox, left=FUTURE, **flow)
    for pages in (2000, 0):
        found = await measured(one, pages=pages)
        states = {key[3]: gauge.value for key, gauge in found.items() if key[:3] == ("workflows", "", "flow")}
        assert {state: value for state, value in states.items() if value} == {
            "queued": 1, "waiting": 2, "retrying": 1, "running": 1,
        }  # fmt: skip
        assert jobs(found, "default")["sleeping"] == 2
        assert jobs(found, "default")["pending"] == 2


async def test_the_lag_of_routes(inbox: Inbox, one: Session) -> None:
    inbox.rows(
        "insert into holdfast.routes (name, types, queue)"
        " values ('nats', '{*}', 'out.nats'), ('idle', '{*}', 'out.idle')"
    )
    id = put(inbox, queue="out.nats", payload='{"type": "@deliver"}')
    inbox.rows("update holdfast.inbox set available_at = now() - interval '90 seconds' where id = %s", id)
    found = await measured(one)
    assert 90 <= found["outbox_lag", "", "", "nats"].value < 150
    assert found["outbox_lag", "", "", "idle"].value == 0


async def test_the_chore_stores_what_it_measures_and_forgets_what_is_gone(
    inbox: Inbox, one: Session, house: Housekeeper
) -> None:
    id = put(inbox, queue="mail")
    await house.round()
    assert (
        inbox.one("select value from holdfast.gauges where name = 'jobs' and queue = 'mail' and label = 'pending'") == 1
    )
    assert inbox.rows("select queue, depth from holdfast.minutes where depth is not null order by queue")[0] == {
        "queue": "",
        "depth": 0,
    }
    inbox.rows("delete from holdfast.inbox where id = %s", id)
    inbox.rows("delete from holdfast.chores where name = 'gauges'")
    await house.round()
    assert inbox.one("select count(*) from holdfast.gauges where queue = 'mail'") == 0
    # The most of the minute, even if the minute is another one by now.
    assert inbox.one("select max(depth) from holdfast.minutes where queue = 'mail'") == 1


async def test_current_numbers_come_from_the_gauges_and_say_how_old_they_are(
    inbox: Inbox, one: Session, house: Housekeeper
) -> None:
    put(inbox, queue="mail")
    await house.round()
    put(inbox, queue="mail")
    now = await numbers.current(one)
    assert (now.depth, now.processing, now.dead_letters) == (Count(1), Count(0), Count(0))
    assert 0 <= now.age < 60
    inbox.rows("update holdfast.gauges set at = at - interval '20 seconds', exact = false where name = 'jobs'")
    inbox.rows("update holdfast.gauges set at = at - interval '20 seconds' where name <> 'jobs'")
    now = await numbers.current(one)
    assert str(now.depth) == "≈ 1"
    assert 20 <= now.age < 80


@pytest.mark.parametrize("stored", [False, True])
async def test_without_a_worker_that_measures_the_numbers_are_measured_now(
    inbox: Inbox, one: Session, house: Housekeeper, stored: bool
) -> None:
    if stored:
        await house.round()
        inbox.rows("update holdfast.gauges set at = now() - interval '1 hour'")
    put(inbox, queue="mail")
    now = await numbers.current(one)
    assert now.depth == Count(1)
    assert now.age == 0
    assert [queue.queue for queue in now.queues] == ["mail"]
    assert now.queues[0].claim_age is not None
    assert now.queues[0].unclaimable == {"t": Count(1)}


Minute = Callable[..., None]


@pytest.fixture
def minute(inbox: Inbox) -> Minute:
    """Stores a minute of so long ago. All of a test count from one instant: the next minute may begin any time."""
    now = inbox.one("select now()")

    def store(ago: str, **columns: Any) -> None:
        values = {"queue": "mail", "kind": "send", **columns}
        names, marks = ", ".join(values), ", ".join(["%s"] * len(values))
        inbox.rows(
            f"insert into holdfast.minutes (at, {names})"
            f" values (date_trunc('minute', %s::timestamptz - %s::interval), {marks})",
            now, ago, *values.values(),
        )  # fmt: skip

    return store


async def test_what_attempts_did_lately(one: Session, minute: Minute) -> None:
    minute("1 minute", started=10, completed=6, retried=2, dead=1, run=[0, 4, 4], run_sum=0.1)
    minute("2 minutes", started=10, completed=10, run=[2], run_sum=0.1)
    minute("2 minutes", kind="other", queue="slow", started=5, completed=5)
    minute("2 minutes", kind="", depth=7, claim_age=3.5)
    minute("2 minutes", queue="", kind="", lease_losses=3, depth=0)
    minute("1 hour", started=1000, dead=1000)
    now = await numbers.current(one)
    assert (now.attempts.started, now.attempts.ended, now.attempts.lease_losses) == (25, 24, 3)
    assert now.retry_rate == 3 / 25
    assert now.attempts.run.counts[:4] == [2, 4, 4, 0]
    assert now.run_p50 is not None and 2**-10 <= now.run_p50 <= 2**-9
    assert now.pickup_p95 is None
    assert 300 <= now.seconds < 361 and now.throughput == 24 / now.seconds
    (mail, slow) = (queue.lately for queue in now.queues)
    assert mail is not None and mail.retry_rate == 3 / 20
    assert slow is not None and slow.attempts.started == 5


async def test_history_in_steps_by_queue_and_by_kind(one: Session, minute: Minute) -> None:
    for ago in range(1, 6):
        minute(f"{ago} minutes", started=ago, pickup=[ago], pickup_sum=ago)
        minute(f"{ago} minutes", kind="other", started=100)
        minute(f"{ago} minutes", kind="", depth=ago, claim_age=ago)
        minute(f"{ago} minutes", queue="slow", kind="", depth=10, claim_age=0.5)
        minute(f"{ago} minutes", queue="", kind="", depth=0)
    points = await numbers.history(one, 10)
    assert [point.attempts.started for point in points] == [105, 104, 103, 102, 101]
    assert [point.depth for point in points] == [15, 14, 13, 12, 11]
    assert [point.claim_age for point in points] == [5, 4, 3, 2, 1]
    assert [point.attempts.pickup.count for point in points] == [5, 4, 3, 2, 1]
    only = await numbers.history(one, 10, queue="mail", kind="send")
    assert [point.attempts.started for point in only] == [5, 4, 3, 2, 1]
    by = await numbers.history(one, 10, by="kind")
    assert {(point.queue, point.kind) for point in by} == {
        ("mail", "send"), ("mail", "other"), ("mail", ""), ("slow", ""), ("", ""),
    }  # fmt: skip
    assert sum(point.attempts.started for point in await numbers.history(one, 60 * 24 * 14)) == 515


async def test_minutes_become_ten_minutes_and_are_forgotten(inbox: Inbox, house: Housekeeper, minute: Minute) -> None:
    began = inbox.one("select date_bin('10 minutes', now() - interval '3 days', '1970-01-01Z')")
    for n in range(25):
        inbox.rows(
            "insert into holdfast.minutes (at, queue, kind, started, run, run_sum, depth) values"
            " (%s::timestamptz + make_interval(mins => %s), 'mail', 'send', 1, %s, 0.5, %s)",
            began, n, [1] * (n % 3), n,
        )  # fmt: skip
    minute("1 day", started=7)
    minute("15 days", started=1000)
    await house.round()
    rows = inbox.rows(
        "select started, run, run_sum, depth from holdfast.minutes"
        " where kind = 'send' and at < now() - interval '2 days' order by at"
    )
    assert [row["started"] for row in rows] == [10, 10, 5]
    assert [row["run"] for row in rows] == [[6, 3], [7, 3], [3, 2]]
    assert [row["run_sum"] for row in rows] == [5, 5, 2.5]
    assert [row["depth"] for row in rows] == [9, 19, 24]
    assert inbox.one("select sum(started) from holdfast.minutes") == 32
