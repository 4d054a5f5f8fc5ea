"""Each query of the runbook finds the fault that it is for. It stands in the package, and its page shows it."""

import ast
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.rows import dict_row
from tests.conftest import migrated
from tests.support.databases import Server
from tests.support.pages import ROOT, blocks
from tests.support.pooler import direct
from tests.support.waiting import wait_until

from holdfast import Flow, Holdfast
from holdfast.cli import cli
from holdfast.runbook import entries
from holdfast.testing import drain_sync

QUERIES = {name: entry.query for name, entry in entries().items()}
PAGES = ROOT / "docs" / "runbook"
BY_HAND = "give-back"
"""A page without a query: what it shows changes rows."""

Connection = psycopg.Connection[dict[str, Any]]


@pytest.fixture(scope="module")
def url(postgres: Server) -> Iterator[str]:
    with postgres.database(migrated(postgres)) as address:
        yield address


@pytest.fixture(scope="module")
def opened(url: str) -> Iterator[Connection]:
    with psycopg.connect(direct(url), autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def db(opened: Connection) -> Iterator[Connection]:
    yield opened
    tables = ("inbox", "archive", "workers", "queues", "chores", "routes", "events", "endpoints", "instances", "steps")
    opened.execute(sql.SQL("; ").join(sql.SQL(f"delete from holdfast.{table}") for table in tables))


def ask(db: Connection, name: str) -> list[dict[str, Any]]:
    return db.execute(sql.SQL(QUERIES[name])).fetchall()


def job(db: Connection, kind: str = "send_receipt", queue: str = "mail", **columns: str) -> None:
    """Enqueue, then put the row into the state that the columns, as SQL, describe."""
    row = db.execute("select holdfast.enqueue(%s, queue => %s) as id", [kind, queue]).fetchone()
    assert row is not None
    if columns:
        changes = sql.SQL(", ").join(sql.SQL(f"{name} = {value}") for name, value in columns.items())
        db.execute(sql.SQL("update holdfast.inbox set {} where id = %s").format(changes), [row["id"]])


def test_oldest_pending(db: Connection) -> None:
    job(db, created_at="now() - interval '2 h'")
    job(db)
    (row,) = ask(db, "oldest-pending")
    assert 7200 <= row["oldest_pending_age"].total_seconds() < 7300


def test_due_lag(db: Connection) -> None:
    job(db, available_at="now() - interval '90 s'")
    job(db, available_at="now() + interval '1 h'", created_at="now() - interval '9 h'")
    job(db, queue="files")
    db.execute("insert into holdfast.queues values ('files', now())")
    mail, files = ask(db, "due-lag")
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
    rows = ask(db, "key-stuck")
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
    query = QUERIES["key-stuck"]
    if narrowed:
        one = " and queue = 'mail' and partition_key = 'order:9182'"
        assert one.strip() in (PAGES / "key-stuck.md").read_text(encoding="utf-8")
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
    assert [row["id"] for row in ask(db, "deaf-workers")] == ["deaf", "old"]


def test_expired_processing(db: Connection) -> None:
    held = {"status": "'processing'", "claimed_by": "'w1'"}
    job(db, **held, lease_expires_at="now() - interval '1 s'")
    job(db, **held, lease_expires_at="now() + interval '1 m'")
    assert [row["claimed_by"] for row in ask(db, "expired-leases")] == ["w1"]


def test_dead_letters_by_kind(db: Connection) -> None:
    for kind in ("a", "a", "b"):
        job(db, kind, status="'dead_letter'", dead_at="now()", last_error="'Boom: no'")
    rows = ask(db, "dead-letters")
    assert [(row["kind"], row["dead_letters"], row["sample_error"]) for row in rows] == [
        ("a", 2, "Boom: no"), ("b", 1, "Boom: no"),
    ]  # fmt: skip


def test_who_holds_what(db: Connection) -> None:
    db.execute("insert into holdfast.workers (id, last_seen_at) values ('w1', now() - interval '5 m')")
    for _ in range(2):
        job(db, status="'processing'", claimed_by="'w1'", claimed_at="now()", lease_expires_at="now()")
    (row,) = ask(db, "who-holds-what")
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
    found = {(row["queue"], row["kind"], row["payload_version"], row["jobs"]) for row in ask(db, "unclaimable")}
    assert found == {("mail", "known", 3, 1), ("mail", "renamed", 1, 1), ("elsewhere", "known", 1, 1)}


def test_retry_rate(db: Connection) -> None:
    job(db, attempts="3", last_error="'Timeout'")
    job(db)
    (row,) = ask(db, "retry-rate")
    assert (row["kind"], row["retrying"], row["attempts_used"]) == ("send_receipt", 1, 3)


def test_who_holds_back_vacuum(db: Connection, url: str) -> None:
    with psycopg.connect(direct(url)) as forgotten:
        forgotten.execute("set transaction isolation level repeatable read")
        forgotten.execute("select 1")
        pid = str(forgotten.info.backend_pid)
        rows = [row for row in ask(db, "vacuum-held-back") if row["name"] == pid]
        assert [(row["what"], row["state"]) for row in rows] == [("session", "idle in transaction")]


def test_is_housekeeping_running(db: Connection) -> None:
    db.execute("insert into holdfast.chores (name, ran_at) values ('sweep', now() - interval '1 h')")
    (row,) = ask(db, "housekeeping")
    assert row["ago"].total_seconds() >= 3600


def test_giving_a_row_back_by_hand(db: Connection) -> None:
    held = {"status": "'processing'", "lease_expires_at": "now() + interval '1 h'"}
    job(db, **held, claimed_by="'the-worker-that-is-gone'")
    job(db, **held, claimed_by="'another'")
    (block,) = blocks(PAGES / f"{BY_HAND}.md")
    db.execute(sql.SQL(block.text))
    rows = db.execute("select status::text, claimed_by from holdfast.inbox order by seq").fetchall()
    assert rows == [{"status": "pending", "claimed_by": None}, {"status": "processing", "claimed_by": "another"}]


def published(db: Connection, route: str, **columns: str) -> None:
    """Publish an event that goes along this route alone, then put its delivery into a state."""
    db.execute(
        "insert into holdfast.routes (name, types, queue) values (%s, array[%s], %s) on conflict do nothing",
        [route, f"{route}.*", f"out.{route}"],
    )
    row = db.execute("select holdfast.publish(%s, '{}') as id", [f"{route}.done"]).fetchone()
    assert row is not None
    if columns:
        changes = sql.SQL(", ").join(sql.SQL(f"{name} = {value}") for name, value in columns.items())
        where = sql.SQL("update holdfast.inbox set {} where payload ->> 'event' = %s")
        db.execute(where.format(changes), [str(row["id"])])


def test_a_route_does_not_deliver(db: Connection) -> None:
    published(db, "away")
    published(db, "away", created_at="now() - interval '1 h'")
    published(db, "refuses", attempts="3", last_error="'Refused: no stream'", created_at="now() - interval '2 h'")
    published(db, "paused", status="'dead_letter'", dead_at="now()")
    db.execute("insert into holdfast.queues (name, paused_at) values ('out.paused', now())")
    db.execute("""insert into holdfast.workers (id, metadata) values ('w1', '{"queues": ["out.away"]}')""")
    refuses, away, paused = ask(db, "route-stuck")
    assert (refuses["name"], refuses["workers"], refuses["retrying"], refuses["waiting"]) == ("refuses", 0, 1, 1)
    assert refuses["sample_error"] == "Refused: no stream"
    assert (away["name"], away["workers"], away["retrying"], away["waiting"]) == ("away", 1, 0, 2)
    assert (paused["name"], paused["waiting"], paused["dead_letters"]) == ("paused", 0, 1)
    assert paused["paused_at"] is not None


def test_dead_deliveries(db: Connection) -> None:
    for _ in range(2):
        published(db, "bus", status="'dead_letter'", dead_at="now()", last_error="'Refused: too large'")
    published(db, "bus")
    job(db, status="'dead_letter'", dead_at="now()")
    (row,) = ask(db, "dead-deliveries")
    assert (row["queue"], row["type"], row["dead_letters"]) == ("out.bus", "bus.done", 2)
    assert row["sample_error"] == "Refused: too large"


def test_an_endpoint_fails(db: Connection) -> None:
    for name, status, more in (
        ("fine", "active", "null, null, null"),
        ("fails", "active", "now(), null, null"),
        ("gone", "disabled", "now(), now(), '410'"),
    ):
        db.execute(
            sql.SQL(
                "insert into holdfast.endpoints (url, status, secrets, failing_since, disabled_at, disabled_reason)"
                f" values (%s, %s, '[{{}}]', {more})"
            ),
            [f"https://{name}.example", status],
        )
    (gone,) = db.execute("select id from holdfast.endpoints where status = 'disabled'").fetchall()
    job(db, queue=f"hold.{gone['id']}")
    rows = ask(db, "endpoint-fails")
    assert [(row["url"], row["disabled_reason"], row["held"]) for row in rows] == [
        ("https://gone.example", "410", 1), ("https://fails.example", None, 0),
    ]  # fmt: skip


def test_lag_grows(db: Connection) -> None:
    published(db, "bus")
    published(db, "slow")
    # In one statement, so that the time in between does not count.
    db.execute(
        """
        with published as (
            update holdfast.events
            set published_at = now() - case type when 'slow.done' then interval '1 s' else interval '0' end
        ), ended as (delete from holdfast.inbox returning *)
        insert into holdfast.archive (
            id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, attempts,
            max_attempts, lease_generation, available_at, created_at, status, finished_at)
        select id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, attempts,
               max_attempts, lease_generation, available_at, created_at, 'completed', now() from ended
        """
    )
    bus, slow = ask(db, "lag-grows")
    assert (bus["route"], bus["delivered"], slow["route"]) == ("bus", 1, "slow")
    assert (bus["p50"], slow["p50"], slow["p99"]) == (0, 1, 1)


# The server


def test_dead_rows(db: Connection, url: str) -> None:
    db.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
    with psycopg.connect(direct(url)) as session:  # its statistics arrive when it ends
        session.execute(
            """insert into holdfast.inbox (partition_key, partition_bucket, payload)
               select 'k', 1, '{}' from generate_series(1, 500)"""
        )
        session.execute("delete from holdfast.inbox")

    def dead() -> bool:
        return any(row["table_name"] == "inbox" and row["dead"] >= 500 for row in ask(db, "dead-rows"))

    wait_until(dead)
    assert ("autovacuum of holdfast.inbox", "off") in [(r["name"], r["setting"]) for r in ask(db, "unsafe-settings")]
    db.execute("alter table holdfast.inbox reset (autovacuum_enabled)")

    def gone() -> bool:  # again: a snapshot elsewhere can keep the rows for a moment; before 15, a report can be lost
        db.execute("vacuum holdfast.inbox")
        return not dead()

    wait_until(gone)
    assert ask(db, "unsafe-settings") == []


def test_unsafe_settings(db: Connection) -> None:
    db.execute("set synchronous_commit = off")
    (row,) = ask(db, "unsafe-settings")
    assert (row["name"], row["setting"], row["source"]) == ("synchronous_commit", "off", "session")
    db.execute("reset synchronous_commit")


def test_freeze_age(db: Connection) -> None:
    before = ask(db, "freeze-age")[0]
    assert before["percent"] < 1
    db.execute("set vacuum_failsafe_age = 1")
    assert ask(db, "freeze-age")[0]["percent"] >= 100
    db.execute("reset vacuum_failsafe_age")


def test_indexes_and_how_the_inbox_is_read(db: Connection) -> None:
    def names(query: str, column: str) -> set[str]:
        return {row[column] for row in ask(db, query)}

    assert "idx_inbox_claim" in names("indexes", "index_name") and "idx_inbox_claim" in names("claim-plan", "way")
    with db.transaction(force_rollback=True):
        db.execute("drop index holdfast.idx_inbox_claim; create index mine on holdfast.inbox (claimed_by)")
        assert "idx_inbox_claim" not in names("indexes", "index_name") | names("claim-plan", "way")
        assert "mine" in names("indexes", "index_name")


def test_clock(db: Connection) -> None:
    (row,) = ask(db, "clock")
    assert abs(row["difference"].total_seconds()) < 5
    with db.transaction(force_rollback=True):
        (text,) = db.execute("select pg_get_functiondef('holdfast.clock'::regproc) as text").fetchall()
        db.execute(sql.SQL(text["text"].replace("statement_timestamp()", "statement_timestamp() - interval '1 h'")))
        (row,) = ask(db, "clock")
        assert row["difference"].total_seconds() > 3500


def test_connections_and_the_sessions_of_a_pooler(db: Connection, url: str) -> None:
    with psycopg.connect(direct(url), application_name="holdfast of a test"):
        (row,) = [row for row in ask(db, "connections") if row["application_name"] == "holdfast of a test"]
        assert (row["connections"], row["state"]) == (1, "idle")
        assert "holdfast of a test" in {row["application_name"] for row in ask(db, "pooler")}


def test_lock_waits(db: Connection, url: str) -> None:
    with psycopg.connect(direct(url)) as holder, psycopg.connect(direct(url)) as waiter:
        holder.execute("lock table holdfast.settings")
        thread = threading.Thread(target=lambda: waiter.execute("select from holdfast.settings"))
        thread.start()
        found: list[dict[str, Any]] = []

        def waits() -> bool:
            found[:] = [row for row in ask(db, "lock-waits") if row["pid"] == waiter.info.backend_pid]
            return bool(found)

        try:
            wait_until(waits)
        finally:
            holder.rollback()
            thread.join()
        assert found[0]["because_of"] == holder.info.backend_pid
        assert (found[0]["waits_for"], found[0]["state"]) == ("holdfast.settings", "idle in transaction")


# The installation


def test_partitions(db: Connection) -> None:
    newest = ask(db, "partitions")[1]["partition"]  # the first is the default one
    assert newest.startswith("archive_2")
    with db.transaction(force_rollback=True):
        db.execute(sql.SQL("drop table holdfast.{}").format(sql.Identifier(newest)))
        assert newest not in {row["partition"] for row in ask(db, "partitions")}


def test_ring(db: Connection) -> None:
    db.execute("insert into holdfast.queues (name, owned) values ('mail', true)")
    for name, ring in (("w1", 7), ("w2", 8)):
        db.execute(
            """insert into holdfast.workers (id, metadata)
               values (%s, %s::jsonb)""",
            [name, json.dumps({"queues": ["mail"], "counters": {"ring": ring}})],
        )
    db.execute("insert into holdfast.workers (id, last_seen_at) values ('gone', now() - interval '1 m')")
    rows = ask(db, "ring")
    assert [(row["worker"], row["members"], row["ring"]) for row in rows] == [("w1", 2, "7"), ("w2", 2, "8")]


def test_versions(db: Connection) -> None:
    for name, version in (("w1", "0.1.0"), ("w2", "0.1.0"), ("w3", "0.0.9")):
        db.execute(
            "insert into holdfast.workers (id, metadata) values (%s, jsonb_build_object('version', %s::text))",
            [name, version],
        )
    db.execute("insert into holdfast.workers (id) values ('old')")
    rows = [(row["what"], row["version"], row["count"]) for row in ask(db, "versions")]
    assert rows[0][0] == "schema"
    assert rows[1:] == [("workers", "(none)", 1), ("workers", "0.0.9", 1), ("workers", "0.1.0", 2)]


def test_hot_keys(db: Connection) -> None:
    for key in ("a", "b", "b", "b", "c", "c"):
        ordered(db, key)
    assert [(row["key"], row["waiting"]) for row in ask(db, "hot-keys")] == [("b", 3), ("c", 2)]


def test_workflow_stuck(db: Connection, url: str) -> None:
    app = Holdfast(url)

    @app.workflow(name="checkout", queue="flows")
    async def checkout(flow: Flow) -> None:
        await flow.wait("shipped")

    for id in ("checkout:1", "checkout:2"):
        checkout.options(id=id).start_sync()
    drain_sync(app, queues=["flows"])
    assert ask(db, "workflow-stuck") == []
    app.pause_instance_sync("checkout:2")
    app.close_sync()
    assert [(row["instance"], row["state"]) for row in ask(db, "workflow-stuck")] == [("checkout:2", "paused")]


# The pages, and the command


def test_every_query_has_a_test() -> None:
    asked = set(re.findall(r'ask\(db, "([\w-]+)"\)|names\("([\w-]+)"', Path(__file__).read_text(encoding="utf-8")))
    assert {one or other for one, other in asked} == set(QUERIES)


def test_every_query_has_a_page_that_shows_it_as_it_is() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {*QUERIES, BY_HAND}
    for name, query in QUERIES.items():
        (block,) = (block for block in blocks(PAGES / f"{name}.md") if block.language == "sql")
        assert block.text == f"{query};\n", f"docs/runbook/{name}.md differs from runbook/{name}.sql"
        assert f"`holdfast runbook {name}`" in (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(runbook/([\w-]+)\.md\)", index)) == {*QUERIES, BY_HAND}


def test_what_the_program_recommends_is_there() -> None:
    found = set()
    for source in (file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py")):
        if "holdfast runbook" not in source:
            continue
        strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
        text = " ".join(value for value in strings if isinstance(value, str))
        found |= set(re.findall(r"holdfast runbook ([a-z]+(?:-[a-z]+)*)\b", text)) - {"says", "shows", "lists"}
    assert found and found <= set(QUERIES), found - set(QUERIES)


def test_queries_have_titles_and_hints() -> None:
    for entry in entries().values():
        assert entry.title and entry.hint.endswith("."), entry.name
        assert "holdfast." in entry.query or "pg_" in entry.query


@pytest.fixture
def runner(url: str) -> CliRunner:
    return CliRunner(env={"HOLDFAST_DATABASE_URL": url})


def test_the_command_lists_runs_and_prints_them(db: Connection, runner: CliRunner) -> None:
    listed = runner.invoke(cli, ["runbook"])
    assert [line.split()[0] for line in listed.output.splitlines()[1:]] == sorted(QUERIES)
    job(db, status="'dead_letter'", dead_at="now()", last_error="'Boom: no'")
    told = runner.invoke(cli, ["runbook", "dead-letters"])
    assert told.exit_code == 0, told.output
    assert "send_receipt" in told.output and "→ docs/runbook/dead-letters.md" in told.output
    (row,) = json.loads(runner.invoke(cli, ["runbook", "dead-letters", "--json"]).output)
    assert (row["kind"], row["dead_letters"]) == ("send_receipt", 1)
    printed = runner.invoke(cli, ["runbook", "dead-letters", "--sql", "--schema", "shop"]).output
    assert 'from "shop".inbox' in printed and printed.endswith(";\n")
    assert runner.invoke(cli, ["runbook", "nonsense"]).exit_code == 1


def test_every_query_runs_as_a_command(db: Connection, runner: CliRunner) -> None:
    for name in QUERIES:
        for flags in ([], ["--json"]):
            told = runner.invoke(cli, ["runbook", name, *flags])
            assert told.exit_code == 0, f"{name}: {told.output} {told.exception}"
