"""Each chore."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.housekeeping.conftest import AT_ONCE, Keep
from tests.housekeeping.rows import claimed, put
from tests.support.inbox import Session, until_waiting
from tests.support.pooler import direct
from tests.support.workers import Inbox
from tests.workflow.flows import child_step, declare, park, started

from holdfast.db.database import Database
from holdfast.housekeeping import chores
from holdfast.housekeeping.chores import Chore
from holdfast.housekeeping.loop import Housekeeper
from holdfast.model.flow import Parked
from holdfast.model.occurrences import Occurrences, Subscriber, Swept
from holdfast.worker.log_lines import LogLines


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


async def test_a_sweep_says_of_which_queue_and_kind_the_attempts_were(inbox: Inbox, keep: Keep) -> None:
    heard: list[Swept] = []

    class Hears(Subscriber):
        def swept(self, rows: Sequence[Swept]) -> None:
            heard.extend(rows)

    ids = [claimed(inbox), claimed(inbox, attempts=5)]
    inbox.rows("update holdfast.inbox set queue = 'mail', kind = 'send' where id = %s", ids[0])
    await keep(occurrences=Occurrences(Hears())).round()
    kind, queue = inbox.rows("select kind, queue from holdfast.inbox where id = %s", ids[1])[0].values()
    assert {(row.id, row.status, row.queue, row.kind) for row in heard} == {
        (ids[0], "pending", "mail", "send"), (ids[1], "dead_letter", queue, kind),
    }  # fmt: skip


async def test_a_valid_lease_is_never_touched(inbox: Inbox, house: Housekeeper) -> None:
    # Requirement 25.
    id = claimed(inbox, left="1 minute", attempts=5)
    before = inbox.job(id)
    assert (await house.round())["sweep"] == 0
    assert inbox.job(id) == before


async def test_two_sweeps_at_the_same_moment_are_as_one(inbox: Inbox, keep: Keep) -> None:
    # Requirement 26.
    ids = [claimed(inbox) for _ in range(50)]
    houses = [keep() for _ in range(4)]
    did = await asyncio.gather(*(house.round() for house in houses))
    assert sum(result.get("sweep", 0) for result in did) == 50
    assert all(len(inbox.job(id)["errors"]) == 1 for id in ids)


GATES = {
    # Statement, its look, and words of its lock with the gate put in.
    "sweep": ("expired", "from expired e\n", "from gate, expired e\n"),
    "forget_entered": ("old", ") found\n    join", ") found\n    cross join gate\n    join"),
}


class Gated(Database, frozen=True):
    """Waits for an advisory lock between a statement's look and its lock."""

    def sql(self, room: str, name: str) -> str:
        sql = super().sql(room, name)
        if name not in GATES:
            return sql
        look, words, gated = GATES[name]
        gate = f"gate as materialized (select pg_advisory_xact_lock(1) from (select count(*) from {look}) n)"
        assert words in sql
        return sql.replace("locked as materialized", f"{gate},\nlocked as materialized", 1).replace(words, gated)


@asynccontextmanager
async def meanwhile(inbox: Inbox, keep: Keep, watching: Session) -> AsyncIterator[list[dict[str, int]]]:
    """A round of housekeeping that has looked and not yet locked inside the block; ends with it."""
    plain = watching.database
    house = keep(database=Gated(plain.url, plain.schema, plain.pooler))
    did: list[dict[str, int]] = []
    async with await psycopg.AsyncConnection.connect(direct(inbox.url), autocommit=True) as gate:
        await gate.execute("select pg_advisory_lock(1)")
        round = asyncio.create_task(house.round())
        await until_waiting(watching.connection, 0)
        yield did
    did.append(await round)


async def test_a_lease_renewed_between_the_look_and_the_lock_is_kept(inbox: Inbox, keep: Keep, one: Session) -> None:
    renewed, out = claimed(inbox), claimed(inbox)
    async with meanwhile(inbox, keep, one) as did:
        inbox.rows("update holdfast.inbox set lease_expires_at = now() + interval '1 hour' where id = %s", renewed)
    assert did[0]["sweep"] == 1
    assert [inbox.status(id) for id in (renewed, out)] == ["processing", "pending"]


def expire(inbox: Inbox, id: UUID) -> None:
    inbox.rows(
        "update holdfast.inbox set status = 'processing', claimed_by = 'gone', attempts = attempts + 1,"
        " lease_expires_at = now() - interval '1 s' where id = %s",
        id,
    )


async def test_a_second_lease_in_a_row_that_ran_out_makes_a_suspect(inbox: Inbox, house: Housekeeper) -> None:
    """The first may be a machine that went away with all it held, most of it never started."""
    id = claimed(inbox, attempts=1, max_attempts=9)
    seen = []
    for _ in range(3):
        await house.round()
        seen.append(inbox.job(id)["crashes"])
        expire(inbox, id)
    assert seen == [0, 1, 2]


async def test_an_expired_lease_after_another_failure_makes_no_suspect(inbox: Inbox, house: Housekeeper) -> None:
    id = claimed(inbox, attempts=2, errors='[{"error": "LeaseExpired"}, {"error": "ValueError"}]')
    await house.round()
    assert inbox.job(id)["crashes"] == 0


async def test_a_row_in_processing_that_nobody_claimed_is_swept_too(inbox: Inbox, house: Housekeeper) -> None:
    """Only hand-written SQL makes one; with an order, it would hold up its key for ever."""
    id = claimed(inbox)
    inbox.rows("update holdfast.inbox set claimed_by = null where id = %s", id)
    assert (await house.round())["sweep"] == 1
    assert inbox.status(id) == "pending"


@pytest.mark.parametrize("attempts", [1, 5])
async def test_a_cancelled_job_whose_lease_ran_out_ends_as_cancelled(
    inbox: Inbox, house: Housekeeper, attempts: int
) -> None:
    """With attempts left it would be claimed only to be ended; with none it would be a dead letter nobody asked for."""
    inbox.rows("insert into holdfast.dedupe values ('key-1', gen_random_uuid(), 't', '')")
    id = claimed(inbox, attempts=attempts, cancel_requested_at="now", idempotency_key="key-1", ordered=True)
    following = put(inbox, ordered=True, status="blocked")
    did = await house.round()
    assert (did["sweep"], did["archive"], did["unblock"]) == (1, 1, 1)
    row = inbox.job(id)
    assert (row["status"], row["attempts"], len(row["errors"])) == ("cancelled", attempts, 1)
    assert row["last_error"].startswith("cancelled while it ran; LeaseExpired: worker gone")
    assert row["finished_at"] is not None and row["cancel_requested_at"] is not None
    assert inbox.one("select count(*) from holdfast.inbox where status <> 'pending'") == 0
    assert inbox.one("select expires_at > now() from holdfast.dedupe"), "its key is remembered"
    assert inbox.status(following) == "pending", "its ordered key goes on"


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


def late(inbox: Inbox, ago: str = "1 second", **columns: Any) -> UUID:
    """A row that has expired."""
    id = put(inbox, **columns)
    inbox.rows("update holdfast.inbox set expires_at = now() - %s::interval where id = %s", ago, id)
    return id


async def test_what_nobody_claims_ends_when_it_has_expired(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows("insert into holdfast.queues (name, paused_at) values ('paused', now())")
    inbox.rows("insert into holdfast.dedupe values ('key-1', gen_random_uuid(), 't', '')")
    ids = {
        "paused": late(inbox, queue="paused", idempotency_key="key-1"),
        "unknown": late(inbox, payload='{"type": "nobody knows"}'),
        "no kind": late(inbox, payload="{}"),
        "later": late(inbox, available_at="2099-01-01"),
        "retry": late(inbox, available_at="2099-01-01", attempts=2, last_error="ValueError: no", errors="[{}, {}]"),
        "suspect": late(inbox, crashes=2),
    }
    others = {
        "without": put(inbox),
        "with time left": late(inbox, "-1 hour"),
        "claimed": claimed(inbox, left="1 minute"),
        "dead": late(inbox, status="dead_letter", attempts=5),
    }
    inbox.rows("update holdfast.inbox set expires_at = now() where id = %s", others["claimed"])
    before = {name: inbox.status(id) for name, id in others.items()}
    assert (await house.round())["expire"] == len(ids)
    rows = {name: inbox.job(id) for name, id in ids.items()}
    assert {row["status"] for row in rows.values()} == {"expired"}
    assert {name: row["attempts"] for name, row in rows.items() if row["attempts"]} == {"retry": 2}
    assert rows["retry"]["last_error"].endswith("; last error: ValueError: no")
    assert rows["retry"]["errors"] == [{}, {}]
    assert rows["paused"]["last_error"].startswith("not started by 20") and rows["paused"]["finished_at"] is not None
    assert inbox.one("select expires_at > now() from holdfast.dedupe"), "its key is remembered"
    assert {name: inbox.status(id) for name, id in others.items()} == before


async def test_the_next_of_an_ordered_key_goes_on_when_its_head_has_expired(inbox: Inbox, house: Housekeeper) -> None:
    late(inbox, ordered=True, payload='{"type": "nobody knows"}')
    late(inbox, ordered=True, status="blocked")
    following = put(inbox, ordered=True, status="blocked")
    last = put(inbox, ordered=True, status="blocked")
    behind = late(inbox, ordered=True, status="blocked", partition_key="other")
    running = claimed(inbox, left="1 minute", ordered=True, partition_key="other")
    waiting = put(inbox, ordered=True, status="blocked", partition_key="other")
    did = await house.round()
    assert (did["expire"], did["unblock"]) == (3, 0), "it unblocks them itself"
    assert [inbox.status(id) for id in (following, last)] == ["pending", "blocked"]
    assert [inbox.status(id) for id in (behind, running, waiting)] == ["expired", "processing", "blocked"]


async def test_a_locked_row_that_has_expired_is_passed_over_and_met_again(inbox: Inbox, house: Housekeeper) -> None:
    free, locked = late(inbox), late(inbox)
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as claimer:
        await claimer.execute("select from holdfast.inbox where id = %s for update", [locked])
        assert (await house.round())["expire"] == 1
        assert [inbox.status(id) for id in (free, locked)] == ["expired", "pending"]
    assert (await house.round())["expire"] == 1
    assert inbox.status(locked) == "expired"


async def test_a_backlog_that_expires_at_once_ends_in_batches(
    inbox: Inbox, house: Housekeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chores, "BATCH", 100)
    late(inbox)
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, expires_at)"
        " select 'k', 1, '{\"type\": \"t\"}', now() from generate_series(1, 449)"
    )
    assert (await house.round())["expire"] == 450
    assert inbox.one("select count(*) from holdfast.archive where status = 'expired'") == 450


@pytest.mark.parametrize("whole", [False, True])
async def test_what_expired_long_ago_is_left_to_claims_and_to_whole_runs(
    inbox: Inbox, house: Housekeeper, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """A run that starts at the beginning walks over all that has ended since the last vacuum."""
    first = late(inbox, "1 day")
    assert (await house.round())["expire"] == 1, "the first run is a whole one"
    monkeypatch.setattr(chores, "WHOLE_EXPIRIES", float(whole))
    retry, fresh = late(inbox, "1 day"), late(inbox)
    await house.round()
    assert [inbox.status(id) for id in (first, fresh)] == ["expired", "expired"]
    assert inbox.status(retry) == ("expired" if whole else "pending")


async def test_what_expired_is_logged_by_kind_and_queue(
    inbox: Inbox, keep: Keep, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        late(inbox)
    alone = late(inbox, queue="mail", payload='{"type": "send"}')
    await keep(occurrences=Occurrences(LogLines())).round()
    lines = sorted(record.message for record in caplog.records if record.levelname == "WARNING")
    assert len(lines) == 2
    assert lines[0].startswith("3 jobs of t on queue default expired: they were not started in time (first: ")
    assert lines[1] == f"send {alone} on queue mail expired: it was not started in time"


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
    inbox.rows("select holdfast.make_event_partitions(6)")
    inbox.rows(f"drop table holdfast.archive_{ahead}")
    inbox.rows(
        "create table holdfast.archive_20200101 partition of holdfast.archive"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    inbox.rows(
        "create table holdfast.events_20200101 partition of holdfast.events"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    did = await house.round()
    assert (did["partitions"], did["retention"]) == (2, 2)
    tables = {row["relname"] for row in inbox.rows("select relname from pg_class where relname ~ '_\\d{8}$'")}
    assert {f"archive_{today}", f"archive_{ahead}", f"events_{today}", f"events_{ahead}"} <= tables
    assert not tables & {"archive_20200101", "events_20200101"}


async def test_retention_keeps_what_a_task_says(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows("insert into holdfast.keep_classes values (60, now() - interval '1 year', now())")
    made = [
        inbox.one(
            "select d.day::date::text from (select date_trunc('day', now() at time zone 'UTC') - %s::interval as day) d"
            " where holdfast.make_partition(d.day::date, d.day at time zone 'UTC')", ago,
        )
        for ago in ("40 days", "70 days")
    ]  # fmt: skip
    assert (await house.round())["retention"] == 2, "the rest of one day, and all of the other"
    left = {row["name"] for row in inbox.rows("select relid::text as name from pg_partition_tree('holdfast.archive')")}
    names = [f"holdfast.archive_{day.replace('-', '')}" for day in made]
    assert {names[0], f"{names[0]}_60d"} <= left
    assert not {f"{names[0]}_rest", names[1], f"{names[1]}_60d"} & left


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
        assert "lock timeout" in inbox.one("select result ->> 'error' from holdfast.chores where name = 'retention'")
    assert "retention" not in await house.round(), "each try holds up completions for a moment"
    inbox.rows("update holdfast.chores set ran_at = ran_at - interval '1 hour' where name = 'retention'")
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


async def test_pruning_keeps_up_with_what_arrives(inbox: Inbox, keep: Keep) -> None:
    """Everything past its horizon goes in one round, however much it is, in transactions of a thousand rows."""
    inbox.rows(
        "insert into holdfast.dedupe (key, job_id, payload_hash, expires_at)"
        " select n::text, gen_random_uuid(), '', now() - interval '1 s' from generate_series(1, 3500) n"
    )
    inbox.rows(
        "insert into holdfast.once select n::text, gen_random_uuid(), 1, now() - interval '40 days',"
        " case when n > 2500 then now() - interval '31 days' end from generate_series(1, 5000) n"
    )
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, status)"
        " select 'k', 1, '{}', 'completed' from generate_series(1, 2500)"
    )
    inbox.rows(
        "insert into holdfast.archive (id, seq, partition_key, partition_bucket, queue, priority, payload,"
        " payload_version, status, attempts, max_attempts, lease_generation, available_at, created_at, finished_at)"
        " select gen_random_uuid(), n, 'k', 1, 'default', 1, '{}', 1, 'completed', 1, 5, 1, now(), now(),"
        " now() - interval '33 days' from generate_series(1, 2500) n"
    )
    did = await keep(3600).round()
    assert (did["forget"], did["archive"], did["retention"]) == (8500, 2500, 2500)
    for table in ("dedupe", "once", "inbox", "archive_default"):
        assert inbox.one(f"select count(*) from holdfast.{table}") == 0, table


async def test_a_locked_key_does_not_slow_down_the_forgetting_of_others(inbox: Inbox, keep: Keep) -> None:
    inbox.rows(
        "insert into holdfast.dedupe (key, job_id, payload_hash, expires_at)"
        " select n::text, gen_random_uuid(), '', now() - interval '1 day' + n * interval '1 s'"
        " from generate_series(1, 3000) n"
    )
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as other:
        await other.execute("select from holdfast.dedupe where key::int <= 1200 for update")
        async with asyncio.timeout(30):
            assert (await keep(3600).round())["forget"] == 1800


def marker(inbox: Inbox, key: str, job: UUID, days: int = 31, done: bool = False) -> None:
    inbox.rows(
        "insert into holdfast.once values (%s, %s, 1, now() - make_interval(days => %s), %s)",
        key, job, days, datetime.now(UTC) if done else None,
    )  # fmt: skip


def markers(inbox: Inbox) -> set[str]:
    return {row["key"] for row in inbox.rows("select key from holdfast.once")}


async def test_markers_that_were_never_finished_are_forgotten_once_their_job_is_gone(
    inbox: Inbox, house: Housekeeper
) -> None:
    gone = UUID(int=1)
    marker(inbox, "old", gone)
    marker(inbox, "young", gone, days=29)
    marker(inbox, "inside", claimed(inbox, left="1 hour"))
    marker(inbox, "dead letter", put(inbox, status="dead_letter", dead_at="now"))
    marker(inbox, "finished late", gone, done=True)
    assert (await house.round())["forget"] == 1
    assert markers(inbox) == {"young", "inside", "dead letter", "finished late"}


async def test_a_marker_entered_between_the_look_and_the_lock_is_kept(inbox: Inbox, keep: Keep, one: Session) -> None:
    for key in ("entered", "finished", "left"):
        marker(inbox, key, UUID(int=1))
    inside = claimed(inbox, left="1 hour", fence=7)
    async with meanwhile(inbox, keep, one) as did:
        ((held, done, busy),) = await one.inbox("once_enter", "entered", inside, 7)
        assert (held, done, busy) == (True, False, False)
        assert await one.inbox("once_finish", "finished", 1)
    assert did[0]["forget"] == 1
    assert markers(inbox) == {"entered", "finished"}


# Order and ownership


async def test_a_blocked_head_that_nothing_holds_back_is_unblocked(inbox: Inbox, house: Housekeeper) -> None:
    stuck = [put(inbox, partition_key=f"stuck {n}", ordered=True, status="blocked") for n in range(3)]
    behind = put(inbox, partition_key="stuck 0", ordered=True, status="blocked")
    claimed(inbox, left="1 minute", partition_key="held", ordered=True)
    held = put(inbox, partition_key="held", ordered=True, status="blocked")
    put(inbox, partition_key="waiting", ordered=True, available_at="2099-01-01")
    waiting = put(inbox, partition_key="waiting", ordered=True, status="blocked")
    assert (await house.round())["unblock"] == 3
    assert [inbox.status(id) for id in stuck] == ["pending"] * 3
    assert [inbox.status(id) for id in (behind, held, waiting)] == ["blocked"] * 3


async def test_a_head_that_waits_and_may_be_skipped_holds_nothing_back(inbox: Inbox, house: Housekeeper) -> None:
    put(inbox, ordered=True, skips=True, available_at="2099-01-01")
    following = put(inbox, ordered=True, skips=True, status="blocked")
    assert (await house.round())["unblock"] == 1
    assert inbox.status(following) == "pending"


async def test_many_blocked_rows_of_one_key_cost_one_look(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, ordered, status) "
        "select 'one', 1, '{}', true, 'blocked' from generate_series(1, 5000)"
    )
    other = put(inbox, partition_key="two", ordered=True, status="blocked")
    assert (await house.round())["unblock"] == 2
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


async def test_a_run_looks_at_some_children_and_the_next_one_goes_on_there(
    one: Session, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On whatever host; and after the last of them, from the first one on."""
    monkeypatch.setattr(chores, "BATCH", 2)
    monkeypatch.setattr(chores, "MOST_CHILDREN", 4)
    await declare(one)
    parent = await started(one)
    begun = [child_step(n) for n in range(10)]
    await park(one, parent, Parked(0, ("child:child#0",), tuple(begun), left=10))
    await one.connection.execute("delete from holdfast.inbox where kind = 'job'")  # they ended, and told nobody

    async def told() -> int:
        return (await keep(AT_ONCE, 0, [Chore("children", 0, chores.children)]).round())["children"]

    assert [await told() for _ in range(4)] == [4, 4, 2, 0]
    await one.connection.execute(
        "update holdfast.steps set status = 'open'"
        " where child_id = (select min(child_id::text)::uuid from holdfast.steps)"
    )
    assert [await told() for _ in range(3)] == [0, 0, 1]


async def test_after_a_failed_turn_the_children_go_on_where_they_were(
    one: Session, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, with many children and a failure now and then, the last ones would never be looked at."""
    monkeypatch.setattr(chores, "BATCH", 2)
    monkeypatch.setattr(chores, "MOST_CHILDREN", 4)
    await declare(one)
    parent = await started(one)
    begun = [child_step(n) for n in range(10)]
    await park(one, parent, Parked(0, ("child:child#0",), tuple(begun), left=10))
    await one.connection.execute("delete from holdfast.inbox where kind = 'job'")

    async def run() -> dict[str, int]:
        return await keep(AT_ONCE, 0, [Chore("children", 0, chores.children)]).round()

    assert await run() == {"children": 4}
    function: str = await one.connection.fetchval("select pg_get_functiondef('holdfast.tell_missed'::regproc)")
    await one.connection.execute(function.replace("\nbegin\n", "\nbegin\n    perform 1 / 0;\n", 1))
    assert [await run() for _ in range(2)] == [{}, {}]
    result = json.loads(await one.connection.fetchval("select result from holdfast.chores where name = 'children'"))
    assert "division by zero" in result["error"]
    await one.connection.execute(function)
    assert [await run() for _ in range(3)] == [{"children": 4}, {"children": 2}, {"children": 0}]
