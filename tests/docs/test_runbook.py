"""Each query of the runbook finds the fault that it is for."""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from tests.support.pages import ROOT
from tests.support.pooler import direct

PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```sql\n(.*?)^```$", PAGE, re.M | re.S))

Connection = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def db(migrated_url: str) -> Iterator[Connection]:
    with psycopg.connect(direct(migrated_url), autocommit=True, row_factory=dict_row) as connection:
        yield connection


def ask(db: Connection, heading: str) -> list[dict[str, Any]]:
    return db.execute(sql.SQL(QUERIES[heading])).fetchall()


def job(db: Connection, kind: str = "send_receipt", queue: str = "mail", **columns: str) -> None:
    """Enqueue, then put the row into the state that the columns, as SQL, describe."""
    row = db.execute("select holdfast.enqueue(%s, queue => %s) as id", [kind, queue]).fetchone()
    assert row is not None
    if columns:
        changes = sql.SQL(", ").join(sql.SQL(f"{name} = {value}") for name, value in columns.items())
        db.execute(sql.SQL("update holdfast.inbox set {} where id = %s").format(changes), [row["id"]])


def test_every_query_has_a_test() -> None:
    tested = {
        "Oldest pending", "Due lag", "Expired processing", "Dead letters by kind", "Who holds what",
        "Unclaimable kinds", "Retry rate", "Who holds back vacuum", "Is housekeeping running?",
        "By hand, in an emergency", "A key does not move", "A sleeping worker does not hear",
    }  # fmt: skip
    assert set(QUERIES) == tested


def test_oldest_pending(db: Connection) -> None:
    job(db, created_at="now() - interval '2 h'")
    job(db)
    (row,) = ask(db, "Oldest pending")
    assert 7200 <= row["oldest_pending_age"].total_seconds() < 7300


def test_due_lag(db: Connection) -> None:
    job(db, available_at="now() - interval '90 s'")
    job(db, available_at="now() + interval '1 h'", created_at="now() - interval '9 h'")
    job(db, queue="files")
    db.execute("insert into holdfast.queues values ('files', now())")
    mail, files = ask(db, "Due lag")
    assert (mail["queue"], mail["due"], mail["paused_at"]) == ("mail", 1, None)
    assert 90 <= mail["lag"].total_seconds() < 120
    assert (files["queue"], files["paused_at"] is not None) == ("files", True)


def ordered(db: Connection, key: str, status: str = "pending", **columns: str) -> Any:
    row = db.execute(
        "select holdfast.enqueue('step', queue => 'mail', key => %s, ordered => true) as id", [key]
    ).fetchone()
    assert row is not None
    for name, value in {"status": f"'{status}'", **columns}.items():
        db.execute(sql.SQL(f"update holdfast.inbox set {name} = {value} where id = %s"), [row["id"]])
    return row["id"]


def test_a_key_does_not_move(db: Connection) -> None:
    ordered(db, "runs", "blocked", created_at="now() - interval '3 h'")
    held = {"claimed_by": "'w1'", "claimed_at": "now() - interval '1 h'", "lease_expires_at": "now()"}
    runs = ordered(db, "runs", "processing", **held)
    retries = ordered(db, "retries", available_at="now() + interval '1 h'", created_at="now() - interval '2 h'")
    ordered(db, "retries", "blocked")
    later = {"available_at": "now() + interval '1 h'", "created_at": "now() - interval '1 h'"}
    ordered(db, "skips", skips="true", **later)
    free = ordered(db, "skips", "blocked")
    ordered(db, "dead", "dead_letter", dead_at="now()")
    job(db)
    rows = ask(db, "A key does not move")
    assert [(row["key"], row["waiting"], row["held_by"], row["status"]) for row in rows] == [
        ("runs", 1, runs, "processing"), ("retries", 2, retries, "pending"), ("skips", 2, free, "blocked"),
    ]  # fmt: skip
    assert rows[0]["claimed_by"] == "w1"


@pytest.mark.parametrize("narrowed", [False, True])
def test_what_holds_a_key_is_found_by_index(db: Connection, narrowed: bool) -> None:
    db.execute(
        """
        insert into holdfast.inbox (queue, partition_key, partition_bucket, payload, status, ordered)
        select 'mail', 'order:' || n / 100, 1, '{"type": "step"}', 'blocked', n % 20 = 0
        from generate_series(1, 20000) n
        """
    )
    db.execute("analyze holdfast.inbox")
    query = QUERIES["A key does not move"]
    if narrowed:
        one = " and queue = 'mail' and partition_key = 'order:9182'"
        assert one.strip() in PAGE
        query = query.replace("    group by", f"    {one}\n    group by", 1)
    plan = "\n".join(str(row["QUERY PLAN"]) for row in db.execute(sql.SQL("explain " + query)))
    assert "Seq Scan" not in plan, plan
    assert "idx_inbox_key" in plan and "idx_inbox_partition_processing" in plan, plan


def test_a_sleeping_worker_does_not_hear(db: Connection) -> None:
    for name, counters in (("deaf", '{"listening": false}'), ("old", "{}"), ("hears", '{"listening": true}')):
        db.execute(
            "insert into holdfast.workers (id, metadata) values (%s, jsonb_build_object('counters', %s::jsonb))",
            [name, counters],
        )
    db.execute("insert into holdfast.workers (id, last_seen_at) values ('gone', now() - interval '1 m')")
    assert [row["id"] for row in ask(db, "A sleeping worker does not hear")] == ["deaf", "old"]


def test_expired_processing(db: Connection) -> None:
    held = {"status": "'processing'", "claimed_by": "'w1'"}
    job(db, **held, lease_expires_at="now() - interval '1 s'")
    job(db, **held, lease_expires_at="now() + interval '1 m'")
    assert [row["claimed_by"] for row in ask(db, "Expired processing")] == ["w1"]


def test_dead_letters_by_kind(db: Connection) -> None:
    for kind in ("a", "a", "b"):
        job(db, kind, status="'dead_letter'", dead_at="now()", last_error="'Boom: no'")
    rows = ask(db, "Dead letters by kind")
    assert [(row["kind"], row["dead_letters"], row["sample_error"]) for row in rows] == [
        ("a", 2, "Boom: no"), ("b", 1, "Boom: no"),
    ]  # fmt: skip


def test_who_holds_what(db: Connection) -> None:
    db.execute("insert into holdfast.workers (id, last_seen_at) values ('w1', now() - interval '5 m')")
    for _ in range(2):
        job(db, status="'processing'", claimed_by="'w1'", claimed_at="now()", lease_expires_at="now()")
    (row,) = ask(db, "Who holds what")
    assert (row["claimed_by"], row["jobs"], row["kinds"]) == ("w1", 2, ["send_receipt"])
    assert row["silent"].total_seconds() >= 300


def test_unclaimable_kinds(db: Connection) -> None:
    db.execute(
        "insert into holdfast.workers (id, metadata) values ('w1', "
        """'{"queues": ["mail"], "kinds": {"known": [1, 2]}}')"""
    )
    job(db, "known")
    job(db, "known", payload_version="3")
    job(db, "renamed")
    job(db, "known", queue="elsewhere")
    job(db, "renamed", available_at="now() + interval '1 h'")
    found = {(row["queue"], row["kind"], row["payload_version"], row["jobs"]) for row in ask(db, "Unclaimable kinds")}
    assert found == {("mail", "known", 3, 1), ("mail", "renamed", 1, 1), ("elsewhere", "known", 1, 1)}


def test_retry_rate(db: Connection) -> None:
    job(db, attempts="3", last_error="'Timeout'")
    job(db)
    (row,) = ask(db, "Retry rate")
    assert (row["kind"], row["retrying"], row["attempts_used"]) == ("send_receipt", 1, 3)


def test_who_holds_back_vacuum(db: Connection, migrated_url: str) -> None:
    with psycopg.connect(direct(migrated_url)) as forgotten:
        forgotten.execute("set transaction isolation level repeatable read")
        forgotten.execute("select 1")
        pid = str(forgotten.info.backend_pid)
        rows = [row for row in ask(db, "Who holds back vacuum") if row["name"] == pid]
        assert [(row["what"], row["state"]) for row in rows] == [("session", "idle in transaction")]


def test_is_housekeeping_running(db: Connection) -> None:
    db.execute("insert into holdfast.chores (name, ran_at) values ('sweep', now() - interval '1 h')")
    (row,) = ask(db, "Is housekeeping running?")
    assert row["ago"].total_seconds() >= 3600


def test_giving_a_row_back_by_hand(db: Connection) -> None:
    held = {"status": "'processing'", "lease_expires_at": "now() + interval '1 h'"}
    job(db, **held, claimed_by="'the-worker-that-is-gone'")
    job(db, **held, claimed_by="'another'")
    db.execute(sql.SQL(QUERIES["By hand, in an emergency"]))
    rows = db.execute("select status::text, claimed_by from holdfast.inbox order by seq").fetchall()
    assert rows == [{"status": "pending", "claimed_by": None}, {"status": "processing", "claimed_by": "another"}]
