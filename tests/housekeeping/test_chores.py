"""Each chore, and whose turn it is."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.pooler import database_at, direct
from tests.support.workers import Inbox

from holdfast.housekeeping import loop
from holdfast.housekeeping.chores import Chore, Done, Turn, sweep
from holdfast.housekeeping.loop import Housekeeper

AT_ONCE = 0.001
"""An interval that has always passed."""


@pytest.fixture
async def house(inbox: Inbox) -> AsyncIterator[Housekeeper]:
    house = Housekeeper(database_at(inbox.url), AT_ONCE, grace=0)
    yield house
    house._drop()


def put(inbox: Inbox, **columns: Any) -> UUID:
    """A row as hand-written SQL might leave it."""
    values = {"partition_key": "k", "partition_bucket": 1, "payload": '{"type": "t"}', **columns}
    marks = ", ".join(["%s"] * len(values))
    id: UUID = inbox.one(
        f"insert into holdfast.inbox ({', '.join(values)}) values ({marks}) returning id", *values.values()
    )
    return id


def claimed(inbox: Inbox, left: str = "-1 second", **columns: Any) -> UUID:
    """A row in flight whose lease has so much left."""
    id = put(
        inbox,
        status="processing",
        claimed_by="gone",
        claimed_at="now",
        lease_generation=4,
        **{"attempts": 2, **columns},
    )
    inbox.rows("update holdfast.inbox set lease_expires_at = now() + %s::interval where id = %s", left, id)
    return id


async def test_an_expired_lease_makes_a_row_pending_again(inbox: Inbox, house: Housekeeper) -> None:
    # Requirement 22.
    id = claimed(inbox)
    assert (await house.round())["sweep"] == 1
    row = inbox.job(id)
    assert (row["status"], row["attempts"], row["lease_generation"]) == ("pending", 2, 4)
    assert row["claimed_by"] is row["claimed_at"] is row["lease_expires_at"] is None
    assert inbox.one("select available_at > created_at from holdfast.inbox")
    assert row["errors"][0]["worker"] == "gone"


async def test_an_expired_lease_of_the_last_attempt_is_a_dead_letter_with_a_reason(
    inbox: Inbox, house: Housekeeper
) -> None:
    # Requirement 23.
    id = claimed(inbox, attempts=5)
    await house.round()
    row = inbox.job(id)
    assert row["status"] == "dead_letter"
    assert row["claimed_by"] is row["claimed_at"] is row["lease_expires_at"] is None
    assert "LeaseExpired" in row["last_error"]
    assert inbox.one("select count(*) from holdfast.dead_letter where dead_at is not null") == 1


async def test_a_valid_lease_is_never_touched(inbox: Inbox, house: Housekeeper) -> None:
    # Requirement 25.
    id = claimed(inbox, left="1 minute", attempts=5)
    before = inbox.job(id)
    assert (await house.round())["sweep"] == 0
    assert inbox.job(id) == before


async def test_two_sweeps_at_the_same_moment_are_as_one(inbox: Inbox) -> None:
    # Requirement 26.
    ids = [claimed(inbox) for _ in range(50)]
    houses = [Housekeeper(database_at(inbox.url), AT_ONCE, grace=0) for _ in range(4)]
    did = await asyncio.gather(*(house.round() for house in houses))
    assert sum(result.get("sweep", 0) for result in did) == 50
    assert all(len(inbox.job(id)["errors"]) == 1 for id in ids)
    for house in houses:
        house._drop()


async def test_a_locked_row_is_passed_over_and_met_again(inbox: Inbox, house: Housekeeper) -> None:
    # Its owner is writing about it: the sweep neither waits nor takes it.
    free, locked = claimed(inbox), claimed(inbox)
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as owner:
        await owner.execute("select from holdfast.inbox where id = %s for update", [locked])
        assert (await house.round())["sweep"] == 1
        assert inbox.status(free) == "pending"
        assert inbox.status(locked) == "processing"
    assert (await house.round())["sweep"] == 1
    assert inbox.status(locked) == "pending"


async def test_one_run_per_interval_across_three_workers(inbox: Inbox) -> None:
    # Requirement 73.
    runs = 0

    async def count(turn: Turn) -> Done:
        nonlocal runs
        runs += 1
        return Done(0)

    houses = [Housekeeper(database_at(inbox.url), 3600, 0, [Chore("counted", 0, count)]) for _ in range(3)]

    async def all_try() -> None:
        for _ in range(10):
            await asyncio.gather(*(house.round() for house in houses))

    await all_try()
    assert runs == 1
    inbox.rows("update holdfast.chores set ran_at = ran_at - interval '1 hour' where name = 'counted'")
    await all_try()
    assert runs == 2
    for house in houses:
        house._drop()


async def test_no_sweep_soon_after_a_connect_or_a_server_start(inbox: Inbox) -> None:
    # After an outage every lease is out while the work still runs: its keepers come first.
    id = claimed(inbox)
    house = Housekeeper(database_at(inbox.url), AT_ONCE, grace=3600)
    assert "sweep" not in await house.round()
    house._back_at -= 7200  # connected long ago, to a server that started just now
    assert "sweep" not in await house.round()
    assert inbox.status(id) == "processing"
    house._grace = 0
    assert (await house.round())["sweep"] == 1
    house._drop()


async def test_no_sweep_soon_after_an_answer_that_was_held_up(inbox: Inbox) -> None:
    # So a pooler hides an outage from us: no connection breaks, and the answer comes when the server is back.
    id = claimed(inbox)
    house = Housekeeper(database_at(inbox.url), AT_ONCE, grace=0.5)
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as outage:
        await outage.execute("lock table holdfast.chores")
        round = asyncio.create_task(house.round())
        await asyncio.sleep(0.7)  # the outage itself: longer than the grace
        assert not round.done()
    assert "sweep" not in await round
    assert inbox.status(id) == "processing"
    while "sweep" not in await house.round():
        await asyncio.sleep(0.01)
    assert inbox.status(id) == "pending"
    house._drop()


async def test_a_sweep_that_an_outage_held_back_takes_nothing_that_ran_out_meanwhile(inbox: Inbox) -> None:
    # It had its turn in good time, and its statement comes when the link speaks again.
    long_out, just_out = claimed(inbox), claimed(inbox)
    inbox.rows("update holdfast.inbox set lease_expires_at = now() + interval '1 hour' where id = %s", just_out)

    async def held_back(turn: Turn) -> Done:
        inbox.rows("update holdfast.inbox set lease_expires_at = clock_timestamp() where id = %s", just_out)
        return await sweep(turn)

    house = Housekeeper(database_at(inbox.url), AT_ONCE, 0, [Chore("sweep", 0, held_back, recovers=True)])
    assert (await house.round())["sweep"] == 1
    assert [inbox.status(id) for id in (long_out, just_out)] == ["pending", "processing"]
    house._drop()


async def test_who_falls_silent_in_the_middle_of_a_chore_loses_its_turn(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE", 0.3)
    turns: list[Turn] = []

    async def silent_at_first(turn: Turn) -> Done:
        turns.append(turn)
        if len(turns) == 1:
            await asyncio.Event().wait()
        return Done(7)

    chores = [Chore("silent", 0, silent_at_first)]
    silent, other = (Housekeeper(database_at(inbox.url), AT_ONCE, 0, chores) for _ in range(2))
    first = asyncio.create_task(silent.round())
    while not turns:
        await asyncio.sleep(0.001)
    assert await other.round() == {}, "it has the turn"
    while not (done := await other.round()):
        await asyncio.sleep(0.01)
    assert done == {"silent": 7}
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    silent._drop()
    other._drop()


async def test_a_failing_chore_does_not_keep_the_others_from_theirs(inbox: Inbox) -> None:
    async def fail(turn: Turn) -> Done:
        await turn.connection.execute("select 1 / 0")
        return Done(0)

    async def work(turn: Turn) -> Done:
        return Done(7)

    house = Housekeeper(database_at(inbox.url), AT_ONCE, 0, [Chore("fails", 0, fail), Chore("works", 0, work)])
    assert await house.round() == {"works": 7}
    assert inbox.one("select count(*) from pg_locks where locktype = 'advisory'") == 0
    house._drop()


async def test_rows_completed_by_hand_are_archived(inbox: Inbox, house: Housekeeper) -> None:
    inbox.one("select holdfast.enqueue('t', idempotency_key => 'key-1')")
    id = inbox.one("update holdfast.inbox set status = 'completed', completed_at = now(), attempts = 1 returning id")
    assert (await house.round())["archive"] == 1
    assert inbox.one("select count(*) from holdfast.inbox") == 0
    assert inbox.job(id)["status"] == "completed"
    assert inbox.one("select expires_at > now() from holdfast.dedupe where key = 'key-1'"), "its key is remembered"


async def test_dead_letters_buried_by_hand_are_mended(inbox: Inbox, house: Housekeeper) -> None:
    id = claimed(inbox, attempts=5)
    inbox.rows("update holdfast.inbox set status = 'dead_letter'")  # the series' bury: claimant and lease stay
    exhausted = put(inbox, attempts=5)
    assert (await house.round())["bury"] == 2
    row = inbox.job(id)
    assert row["claimed_by"] is row["lease_expires_at"] is None
    assert "gone" in row["last_error"]
    assert inbox.status(exhausted) == "dead_letter"
    assert inbox.one("select count(*) from holdfast.inbox where dead_at is null") == 0


async def test_silent_workers_are_called_dead_and_long_dead_ones_forgotten(inbox: Inbox, house: Housekeeper) -> None:
    for name, status, silent in (
        ("quiet", "alive", "2 minutes"), ("stuck", "draining", "2 minutes"), ("lively", "alive", "10 seconds"),
        ("buried", "dead", "2 days"),
    ):  # fmt: skip
        inbox.rows("insert into holdfast.workers values (%s, %s, now() - %s::interval)", name, status, silent)
    assert (await house.round())["members"] == 2
    assert inbox.workers() == {"quiet": "dead", "stuck": "dead", "lively": "alive"}


async def test_partitions_are_made_ahead_and_dropped_by_retention(inbox: Inbox, house: Housekeeper) -> None:
    today = inbox.one("select to_char(now() at time zone 'UTC', 'YYYYMMDD')")
    ahead = inbox.one("select to_char(now() at time zone 'UTC' + interval '7 days', 'YYYYMMDD')")
    inbox.rows(f"drop table holdfast.archive_{ahead}")
    inbox.rows(
        "create table holdfast.archive_20200101 partition of holdfast.archive"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    did = await house.round()
    assert (did["partitions"], did["retention"]) == (1, 1)
    tables = {row["relname"] for row in inbox.rows("select relname from pg_class where relname ~ '^archive_\\d+$'")}
    assert {f"archive_{today}", f"archive_{ahead}"} <= tables
    assert "archive_20200101" not in tables


async def test_retention_gives_way_to_a_reader_and_comes_back(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows(
        "create table holdfast.archive_20200101 partition of holdfast.archive"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as reader:
        await reader.execute("select count(*) from holdfast.archive")  # and stays in its transaction
        did = await house.round()
        assert "retention" not in did
        assert "forget" in did, "the next chore had its turn"
    assert (await house.round())["retention"] == 1


async def test_keys_and_markers_past_their_horizon_are_forgotten(inbox: Inbox, house: Housekeeper) -> None:
    for key, expires in (("old", "'-1 second'"), ("young", "'1 hour'"), ("live", "null")):
        inbox.rows(
            f"insert into holdfast.dedupe values (%s, gen_random_uuid(), 't', '', now() + {expires}::interval)", key
        )
    for key, done in (("old", "'-31 days'"), ("young", "'-1 day'"), ("inside", "null")):
        inbox.rows(f"insert into holdfast.once values (%s, gen_random_uuid(), 1, now(), now() + {done}::interval)", key)
    assert (await house.round())["forget"] == 2
    assert {row["key"] for row in inbox.rows("select key from holdfast.dedupe")} == {"young", "live"}
    assert {row["key"] for row in inbox.rows("select key from holdfast.once")} == {"young", "inside"}


# Order and ownership


async def test_a_parked_head_that_nothing_holds_back_is_released(inbox: Inbox, house: Housekeeper) -> None:
    stuck = [put(inbox, partition_key=f"stuck {n}", ordered=True, status="blocked") for n in range(3)]
    behind = put(inbox, partition_key="stuck 0", ordered=True, status="blocked")
    claimed(inbox, left="1 minute", partition_key="held", ordered=True)
    held = put(inbox, partition_key="held", ordered=True, status="blocked")
    put(inbox, partition_key="waiting", ordered=True, available_at="2099-01-01")
    waiting = put(inbox, partition_key="waiting", ordered=True, status="blocked")
    assert (await house.round())["release"] == 3
    assert [inbox.status(id) for id in stuck] == ["pending"] * 3
    assert [inbox.status(id) for id in (behind, held, waiting)] == ["blocked"] * 3


async def test_a_head_that_waits_and_may_be_skipped_holds_nothing_back(inbox: Inbox, house: Housekeeper) -> None:
    put(inbox, ordered=True, skips=True, available_at="2099-01-01")
    following = put(inbox, ordered=True, skips=True, status="blocked")
    assert (await house.round())["release"] == 1
    assert inbox.status(following) == "pending"


async def test_many_parked_rows_of_one_key_cost_one_look(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, ordered, status) "
        "select 'one', 1, '{}', true, 'blocked' from generate_series(1, 5000)"
    )
    other = put(inbox, partition_key="two", ordered=True, status="blocked")
    assert (await house.round())["release"] == 2
    assert inbox.status(other) == "pending"
    assert inbox.one("select count(*) from holdfast.inbox where status = 'blocked'") == 4999


def member(inbox: Inbox, name: str, kinds: dict[str, list[int]]) -> None:
    inbox.rows(
        "insert into holdfast.workers (id, metadata) values (%s, %s)",
        name, json.dumps({"queues": ["default"], "kinds": kinds}),
    )  # fmt: skip


async def test_an_owned_row_that_its_owner_may_not_know_is_everyones(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows("insert into holdfast.queues (name, owned) values ('default', true)")
    member(inbox, "old", {"t": [1, 1]})
    member(inbox, "new", {"t": [1, 1], "fresh": [1, 1]})
    plain, foreign = put(inbox, owned=True), put(inbox, owned=True, payload='{"type": "fresh"}')
    later = put(inbox, owned=True, payload='{"type": "fresh"}', available_at="2099-01-01")
    assert (await house.round())["disown"] == 1
    flags = {row["id"]: row["owned"] for row in inbox.rows("select id, owned from holdfast.inbox")}
    assert flags == {plain: True, foreign: False, later: True}


async def test_rows_of_a_queue_that_is_not_owned_any_more_are_everyones(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows("insert into holdfast.queues (name) values ('default')")
    put(inbox, owned=True)
    assert (await house.round())["disown"] == 1
    assert inbox.one("select owned from holdfast.inbox") is False
