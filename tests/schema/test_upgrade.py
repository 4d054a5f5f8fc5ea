"""An upgrade from the first schema that was released, with rows of every status in flight: nothing is lost."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from tests.support.pooler import database_at, direct
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.schema import migrate as runner
from holdfast.schema.migrate import _beginning, _record, migrate, migrations

RELEASED = 6

ROWS = """
    insert into holdfast.inbox (
        partition_key, partition_bucket, payload, status, ordered, attempts, claimed_by, claimed_at, lease_expires_at,
        lease_generation, available_at, dead_at, completed_at, idempotency_key, last_error, cancel_requested_at)
    select 'key ' || r.n, 1, jsonb_build_object('type', 'note', 'n', r.n), r.status::holdfast.inbox_status, r.ordered,
        r.attempts, r.worker, r.claimed_at, r.claimed_at + interval '1 hour' - r.ago, r.attempts,
        now() - interval '1 minute',
        case r.status when 'dead_letter' then now() end, case r.status when 'completed' then now() end,
        'idempotency ' || r.n, 'as it was', r.cancelled
    from (values
        (1, 'pending', false, 0, null, null::timestamptz, interval '0', null::timestamptz),
        (2, 'pending', true, 1, null, null, interval '0', null),
        (3, 'blocked', true, 0, null, null, interval '0', null),
        (4, 'processing', false, 1, 'gone', now(), interval '2 hours', null),
        (5, 'processing', true, 1, 'gone', now(), interval '2 hours', null),
        (6, 'processing', false, 1, 'gone', now(), interval '2 hours', now()),
        (7, 'processing', false, 5, 'gone', now(), interval '2 hours', null),
        (8, 'dead_letter', false, 5, null, null, interval '0', null),
        (9, 'completed', false, 1, null, null, interval '0', null),
        (10, 'failed', false, 1, null, null, interval '0', null)
    ) as r (n, status, ordered, attempts, worker, claimed_at, ago, cancelled)
"""
OTHERS = """
    insert into holdfast.dedupe (key, job_id, kind, payload_hash)
        select i.idempotency_key, i.id, i.kind, sha256(convert_to(i.payload::text, 'UTF8')) from holdfast.inbox i;
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
        max_attempts, lease_generation, available_at, created_at, finished_at)
        select holdfast.uuidv7(), 0, 'old', 1, 'default', 1, 'note', '{"type": "note", "n": 0}', 1, 'completed', 1,
               5, 1, now(), now(), now();
    insert into holdfast.once (key, job_id, fence, entered_at, done_at) select 'done', i.id, 1, now(), now()
        from holdfast.inbox i limit 1;
    insert into holdfast.queues (name, ordered) values ('mail', true);
"""
AFTER = {
    1: "completed", 2: "completed", 3: "completed", 4: "completed", 5: "completed", 6: "cancelled", 7: "dead_letter",
    8: "dead_letter", 9: "completed", 10: "failed",
}  # fmt: skip


def released(url: str, version: int = RELEASED) -> None:
    """The schema as it was."""
    with psycopg.connect(direct(url)) as connection:
        for statement in _beginning("holdfast"):
            connection.execute(statement.encode())
        for migration in migrations()[:version]:
            connection.execute("set local search_path = pg_catalog, pg_temp")
            connection.execute(migration.text.encode())
            connection.execute(_record(migration, "holdfast").encode())


def everything(url: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables that hold work, without what a migration may add."""
    found = {}
    with psycopg.connect(direct(url), row_factory=dict_row) as connection:
        for table in ("inbox", "archive", "dedupe", "once", "queues"):
            rows = connection.execute(f"select * from holdfast.{table}".encode()).fetchall()
            rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
            found[table] = sorted(rows, key=lambda row: json.dumps(row, default=str))
    return found


async def test_rows_of_every_status_stay_as_they_are_and_come_to_their_end(database_url: str) -> None:
    released(database_url)
    with psycopg.connect(direct(database_url)) as connection:
        connection.execute(ROWS.encode())
        connection.execute(OTHERS.encode())
    before = everything(database_url)
    assert len(before["inbox"]) == len(AFTER)

    applied = await migrate(database_at(database_url))
    assert [step.name for step in applied] == [migration.name for migration in migrations()[RELEASED:]]
    assert everything(database_url) == before

    hf = Holdfast(database_url, pooler=database_at(database_url).pooler)
    ran: list[int] = []

    @hf.task
    async def note(n: int) -> None:
        ran.append(n)

    inbox = Inbox(database_url)
    inbox.rows("update holdfast.settings set value = '0' where name = 'backoff_unit'")

    live = "select (payload ->> 'n')::int as n, status::text from holdfast.jobs where partition_key <> 'old'"

    def status() -> dict[int, str]:
        rows = inbox.rows(live)
        return {row["n"]: row["status"] for row in rows}

    async with hf.worker(poll="20ms", housekeeping="100ms", lease="9s"):
        await until(lambda: status() == AFTER)
        again = await note.options(idempotency_key="idempotency 1").enqueue(n=1)
        assert again.existed, "its key is remembered through the upgrade"
    assert sorted(ran) == [1, 2, 3, 4, 5], "each once"
    assert inbox.one("select count(*) from holdfast.archive where partition_key = 'old'") == 1
    await hf.close()


@pytest.mark.parametrize("version", range(1, RELEASED + 1))
async def test_every_version_can_be_upgraded(database_url: str, version: int) -> None:
    """Also those in between, which a development installation may have."""
    released(database_url, version)
    assert len(await migrate(database_at(database_url))) == len(migrations()) - version
    assert await migrate(database_at(database_url)) == []


async def test_producers_can_enqueue_after_every_step(database_url: str) -> None:
    """As they do in the release before, and through the SQL function: a migration may wait for a lock between two."""
    released(database_url)
    database = database_at(database_url)
    connection = await database.connect("migrate")
    try:
        steps = 0
        while await runner._apply_next(connection, "holdfast", []):
            steps += 1
            assert await connection.fetchval("select holdfast.enqueue('note')") is not None
            assert await connection.fetchval("select holdfast.wake('default', null::float8, null)") is False
        assert steps == len(migrations()) - RELEASED
        assert await connection.fetchval("select count(*) from holdfast.inbox") == steps
    finally:
        await connection.close()
