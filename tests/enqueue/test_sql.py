"""`holdfast.enqueue()`, for every language that can speak SQL."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.enqueue.conftest import Inbox
from tests.pure.test_payload import anything, json_values
from tests.support.pooler import direct

from holdfast import Holdfast, IdempotencyConflict, Task
from holdfast.model.ids import new_id
from holdfast.model.payload import encode
from holdfast.model.terms import Terms

TERMS = Terms(kind="job", queue="default", priority=1, max_attempts=5, version=1)


async def test_the_defaults(inbox: Inbox) -> None:
    id = await inbox.connection.fetchval("select holdfast.enqueue('greet')")
    (row,) = await inbox.jobs(
        "id, kind, payload, queue, priority, partition_key, partition_bucket, max_attempts, payload_version, headers, "
        "idempotency_key, status::text, attempts, available_at <= clock_timestamp() as due"
    )
    assert dict(row) == {
        "id": id, "kind": "greet", "payload": '{"type": "greet"}', "queue": "default", "priority": 1,
        "partition_key": str(id), "partition_bucket": row["partition_bucket"], "max_attempts": 5, "payload_version": 1,
        "headers": None, "idempotency_key": None, "status": "pending", "attempts": 0, "due": True,
    }  # fmt: skip
    assert isinstance(id, UUID)
    assert id.version == 7
    assert row["partition_bucket"] == await inbox.connection.fetchval("select holdfast.bucket($1)", str(id))
    assert await inbox.count("holdfast.dedupe") == 0


async def test_everything_named(inbox: Inbox) -> None:
    mine, noon = new_id(), datetime(2099, 1, 1, 12, tzinfo=UTC)
    id = await inbox.connection.fetchval(
        """select holdfast.enqueue(
            'greet', args => '{"name": "Ada"}', queue => 'mail', key => 'user:1', at => $1, priority => 0,
            idempotency_key => 'greet-1', max_attempts => 2, version => 3,
            headers => '{"traceparent": "00"}', id => $2)""",
        noon,
        mine,
    )
    (row,) = await inbox.jobs(
        "id, payload, queue, partition_key, available_at, priority, idempotency_key, max_attempts, "
        "payload_version, headers"
    )
    assert id == mine
    assert json.loads(row["payload"]) == {"type": "greet", "name": "Ada"}
    assert tuple(row)[2:] == ("mail", "user:1", noon, 0, "greet-1", 2, 3, '{"traceparent": "00"}')


async def test_a_delay(inbox: Inbox) -> None:
    await inbox.connection.execute("select holdfast.enqueue('greet', delay => '5 minutes')")
    (row,) = await inbox.jobs("available_at - clock_timestamp() as ahead")
    assert timedelta(minutes=4) < row["ahead"] <= timedelta(minutes=5)


REFUSALS = [
    ("null", "kind must be 1 to 128 characters, got null"),
    ("''", "kind must be 1 to 128 characters, got 0"),
    ("repeat('x', 129)", "kind must be 1 to 128 characters, got 129"),
    ("'k', null", "args must be a JSON object, got null"),
    ("'k', '[1]'", "args must be a JSON object, got array"),
    ("'k', '{\"type\": \"x\"}'", 'args must not hold "type"'),
    ("'k', jsonb_build_object('a', repeat('x', 1048576))", "args are 1048585 bytes, the limit is 1048576"),
    ("'k', (repeat('{\"a\":', 100) || '1' || repeat('}', 100))::jsonb", "args are nested deeper than 100 levels"),
    ("'k', queue => null", "queue must be 1 to 128 characters"),
    ("'k', queue => ''", "queue must be 1 to 128 characters"),
    ("'k', key => ''", "key must be 1 to 512 bytes, got 0"),
    ("'k', key => repeat('é', 257)", "key must be 1 to 512 bytes, got 514"),
    ("'k', idempotency_key => repeat('x', 513)", "idempotency_key must be 1 to 512 bytes, got 513"),
    ("'k', priority => 4", "priority must be 0 (first) to 3 (last), got 4"),
    ("'k', priority => null", "priority must be 0 (first) to 3 (last), got null"),
    ("'k', max_attempts => 0", "max_attempts must be at least 1, got 0"),
    ("'k', version => 0", "version must be at least 1, got 0"),
    ("'k', delay => '1 s', at => now()", "give delay or at, not both"),
    ("'k', delay => '-1 s'", "delay must be zero or more, got -00:00:01"),
    ("'k', delay => '1000 years'", "delay is too far ahead: the job would never run"),
    ("'k', at => 'infinity'", "at is too far ahead: the job would never run"),
    ("'k', headers => '[]'", "headers must be a JSON object, got array"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS)
async def test_a_refusal_says_what_and_stores_nothing(inbox: Inbox, call: str, message: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await inbox.connection.execute(f"select holdfast.enqueue({call})")
    assert refused.value.sqlstate == "HF001"
    assert str(refused.value).startswith(message)
    assert await inbox.count() == 0


@pytest.mark.parametrize(
    "call",
    [
        "'k', (repeat('{\"a\":', 99) || '1' || repeat('}', 99))::jsonb",
        "'k', key => repeat('x', 512)",
        "repeat('x', 128)",
    ],
)
async def test_the_limits_themselves_are_allowed(inbox: Inbox, call: str) -> None:
    await inbox.connection.execute(f"select holdfast.enqueue({call})")
    assert await inbox.count() == 1


async def test_a_bucket_outside_the_ring_is_refused_by_the_table(inbox: Inbox) -> None:
    for bucket in (-1, 1024):
        with pytest.raises(asyncpg.CheckViolationError):
            await inbox.connection.execute(
                "insert into holdfast.inbox (partition_key, partition_bucket, payload) values ('k', $1, '{}')", bucket
            )


async def test_a_repeated_key(inbox: Inbox) -> None:
    call = "select holdfast.enqueue($1, $2, idempotency_key => 'k')"
    first = await inbox.connection.fetchval(call, "greet", '{"a": 1, "b": 2}')
    assert await inbox.connection.fetchval(call, "greet", '{"b": 2,  "a": 1}') == first, (
        "the same JSON, whatever its text"
    )
    for kind, args, word in (("greet", '{"a": 2}', "another payload"), ("part", '{"a": 1, "b": 2}', "kind greet")):
        with pytest.raises(asyncpg.PostgresError, match=f"key k belongs to job {first}, which has {word}") as refused:
            await inbox.connection.execute(call, kind, args)
        assert refused.value.sqlstate == "HF002"
    assert await inbox.count() == 1


async def test_rows_without_a_key_are_never_deduplicated(inbox: Inbox) -> None:
    made = [await inbox.connection.fetchval("select holdfast.enqueue('greet')") for _ in range(3)]
    assert len(set(made)) == 3
    assert await inbox.count() == 3


async def test_python_and_sql_mean_the_same_job(hf: Holdfast, inbox: Inbox, send_receipt: Task[..., None]) -> None:
    """One key, from two languages."""
    job = await send_receipt.options(idempotency_key="k").enqueue(order_id=1)
    call = "select holdfast.enqueue('send_receipt', '{\"order_id\": 1}', idempotency_key => 'k')"
    assert await inbox.connection.fetchval(call) == job.id
    assert (await send_receipt.options(idempotency_key="k").enqueue(order_id=1)).existed


# Rows that come by another way

HAND_WRITTEN = """
    insert into holdfast.inbox (partition_key, partition_bucket, payload, idempotency_key)
    values ('order:1', 7, '{"type": "send_receipt", "order_id": 1}', 'k') returning id"""


async def test_a_hand_written_row_holds_its_key(inbox: Inbox, send_receipt: Task[..., None]) -> None:
    written = await inbox.connection.fetchval(HAND_WRITTEN)
    job = await send_receipt.options(idempotency_key="k").enqueue(order_id=1)
    assert (job.id, job.existed) == (written, True)
    with pytest.raises(IdempotencyConflict, match=f"{written}, which has another payload"):
        await send_receipt.options(idempotency_key="k").enqueue(order_id=2)
    with pytest.raises(asyncpg.UniqueViolationError):
        await inbox.connection.execute(HAND_WRITTEN)
    assert await inbox.count() == 1


async def test_other_work_under_a_hand_written_key_is_a_conflict_the_first_time_too(
    inbox: Inbox, send_receipt: Task[..., None]
) -> None:
    written = await inbox.connection.fetchval(HAND_WRITTEN)
    with pytest.raises(IdempotencyConflict, match=f"{written}, which has another payload"):
        await send_receipt.options(idempotency_key="k").enqueue(order_id=2)
    assert await inbox.count() == 1


# Ids of the caller's own

ARCHIVE = """
    with ended as (delete from holdfast.inbox returning *)
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
        max_attempts, lease_generation, available_at, created_at, finished_at, idempotency_key)
    select id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, 'completed', 1,
        max_attempts, 1, available_at, created_at, now(), idempotency_key from ended"""


async def test_an_own_id_is_found_after_its_job_ended(inbox: Inbox, send_receipt: Task[..., None]) -> None:
    mine = new_id()
    await send_receipt.options(id=mine).enqueue(order_id=1)
    await inbox.connection.execute(ARCHIVE)
    again = await send_receipt.options(id=mine).enqueue(order_id=1)
    assert (again.id, again.existed) == (mine, True)
    with pytest.raises(IdempotencyConflict, match=r"id: .*another payload"):
        await send_receipt.options(id=mine).enqueue(order_id=2)
    assert await inbox.count() == 0


async def test_a_key_found_again_by_an_ended_id_is_remembered_no_longer_than_any(
    inbox: Inbox, send_receipt: Task[..., None]
) -> None:
    mine = new_id()
    await send_receipt.options(id=mine, idempotency_key="k").enqueue(order_id=1)
    await inbox.connection.execute(ARCHIVE)
    await inbox.connection.execute("delete from holdfast.dedupe")  # as the horizon does
    again = await send_receipt.options(id=mine, idempotency_key="k").enqueue(order_id=1)
    assert (again.id, again.existed) == (mine, True)
    assert await inbox.connection.fetchval("select expires_at > now() from holdfast.dedupe")


async def test_a_key_outlives_its_job(inbox: Inbox, send_receipt: Task[..., None]) -> None:
    first = await send_receipt.options(idempotency_key="k").enqueue(order_id=1)
    await inbox.connection.execute(ARCHIVE)
    again = await send_receipt.options(idempotency_key="k").enqueue(order_id=1)
    assert (again.id, again.existed) == (first.id, True)
    assert await inbox.count() == 0


# The clock and the xid


async def test_the_xid_is_drawn_before_the_clock_is_read(hf: Holdfast, inbox: Inbox) -> None:
    """The claim floor takes a time for safe when no older transaction is left: a row must not carry an earlier one."""
    async with inbox.connection.transaction():
        await inbox.connection.fetchval(hf._database.sql("inbox", "enqueue_copy"), TERMS.text, 1)
        assert await inbox.connection.fetchval("select pg_current_xact_id_if_assigned()") is not None
    for name, arguments in (("enqueue", 14), ("enqueue_many", 6)):
        nothing = ", ".join(["null"] * arguments)
        await inbox.connection.execute(f"prepare the_plan as {hf._database.sql('inbox', name)}")
        plan: list[Any] = await inbox.connection.fetch(f"explain execute the_plan ({nothing})")
        await inbox.connection.execute("deallocate the_plan")
        assert "One-Time Filter: (pg_current_xact_id() IS NOT NULL)" in "\n".join(line[0] for line in plan)


# JSON through the database


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(values=st.lists(json_values, min_size=10, max_size=30))
def test_strict_json_comes_back_from_the_database_as_it_went(migrated_url: str, values: list[Any]) -> None:
    """Postgres writes numbers its own way: where no type says float, 1e22 comes back as a whole number."""
    definition = anything._definition
    sent = [encode("anything", {"value": value}) for value in values]
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = connection.execute("select p::jsonb::text from unnest(%s::text[]) p", [sent]).fetchall()
    assert all(same(value, definition.decode(row[0], 1)["value"]) for value, row in zip(values, rows, strict=True))


def same(sent: Any, found: Any) -> bool:
    match sent:
        case float():
            return float(found) == sent
        case list():
            return len(sent) == len(found) and all(map(same, sent, found))
        case dict():
            return sent.keys() == found.keys() and all(same(sent[key], found[key]) for key in sent)
    return type(sent) is type(found) and bool(sent == found)
