"""Checks of the doctor: what each says while all is well, and while its fault is there.

Faults of the server are made for real here. Those of the work and of workers are rows that are written for the purpose,
for words and limits; with real workers, they are in `real/`.
"""

import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.doctor.conftest import CONNECTIONS, Ward
from tests.support.causes import cause
from tests.support.pages import ROOT
from tests.support.pooler import direct
from tests.support.stopwatch import undisturbed
from tests.support.waiting import until, wait_until
from tests.support.workers import Inbox

from holdfast import Holdfast, InvalidInput
from holdfast.db.database import Database
from holdfast.doctor.checks import CHECKS, horizon, indexes, locks, notify
from holdfast.model.finding import Finding, exit_code
from holdfast.model.ring import digest
from holdfast.runbook import entries
from holdfast.schema.migrate import migrate, newest

pytestmark = pytest.mark.direct


def test_all_is_well(ward: Ward) -> None:
    found = ward.hf.doctor_sync()
    assert [finding.name for finding in found] == [check.name for check in CHECKS]
    assert {finding.name: finding.sentence for finding in found if finding.level != "ok"} == {}
    assert exit_code(found) == 0


def test_each_has_a_page_and_a_line_in_the_docs() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for check in CHECKS:
        assert check.page in entries(), check.name
        assert f"| `{check.name}` |" in page


def test_a_check_that_there_is_not(ward: Ward) -> None:
    with pytest.raises(InvalidInput, match="there is no check 'spleen'; expected one of versions, "):
        ward.hf.doctor_sync("spleen")


def test_exit_codes() -> None:
    def of(*levels: Any) -> int:
        return exit_code(Finding("a", level, "") for level in levels)

    assert [of("ok"), of("ok", "warn"), of("ok", "unseen"), of("warn", "fail", "unseen")] == [0, 1, 1, 2]


# The horizon


@cause("horizon: warn: holds back the xmin horizon", "horizon: fail: holds back the xmin horizon")
def test_a_session_holds_the_horizon(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real transaction, as old as the test; the limits of 5 minutes and an hour are lowered for it."""
    held = ward.session()
    held.execute("set transaction isolation level repeatable read; select 1")
    assert ward.level("horizon") == "ok", "it is young"
    monkeypatch.setattr(horizon, "WARN", 0.0)
    found = ward.find("horizon")
    assert found.level == "warn"
    assert f"session {held.info.backend_pid} " in found.sentence and "idle in transaction" in found.sentence
    assert f"pg_terminate_backend({held.info.backend_pid})" in (found.remedy or "")
    monkeypatch.setattr(horizon, "FAIL", 0.0)
    assert ward.level("horizon") == "fail"
    held.rollback()
    assert ward.level("horizon") == "ok"


@cause("horizon: warn: prepared transaction forgotten")
def test_a_prepared_transaction_holds_it(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one; the limit of 5 minutes is lowered."""
    monkeypatch.setattr(horizon, "WARN", 0.0)
    ward.rows("begin")
    ward.rows("insert into holdfast.settings values ('forgotten', '1')")
    ward.rows("prepare transaction 'forgotten'")
    try:
        found = ward.find("horizon")
        assert (found.level, "prepared transaction forgotten" in found.sentence) == ("warn", True)
        assert found.remedy is not None and "rollback prepared 'forgotten'" in found.remedy
    finally:
        ward.rows("rollback prepared 'forgotten'")
    assert ward.level("horizon") == "ok"


@cause("horizon: warn: replication slot forgotten")
def test_a_replication_slot_holds_it(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one; the limit of a million transactions is lowered."""
    monkeypatch.setattr(horizon, "SOME_XIDS", 1)
    ward.rows("select pg_create_logical_replication_slot('forgotten', 'pgoutput')")
    try:
        for _ in range(3):
            ward.rows("select pg_current_xact_id()")
        found = ward.find("horizon")
        assert (found.level, "replication slot forgotten (not in use)" in found.sentence) == ("warn", True)
        assert "pg_drop_replication_slot('forgotten')" in (found.remedy or "")
    finally:
        ward.rows("select pg_drop_replication_slot('forgotten')")
    assert ward.level("horizon") == "ok"


@cause("horizon: warn: session")
def test_a_consumer_of_logical_replication_that_copies_is_no_standby(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a subscription copies its tables at first. The limit of 5 minutes is lowered."""
    monkeypatch.setattr(horizon, "WARN", 0.0)
    with psycopg.connect(f"{ward.url}?replication=database") as consumer:
        for statement in (b"begin isolation level repeatable read", b"select 1"):
            consumer.pgconn.exec_(statement)
        found = ward.find("horizon")
        assert f"session {consumer.info.backend_pid} " in found.sentence
        assert f"pg_terminate_backend({consumer.info.backend_pid})" in (found.remedy or "")


def test_what_a_role_may_not_see_is_unseen(ward: Ward) -> None:
    ward.rows("create role watcher login password 'w'")
    ward.rows("grant usage on schema holdfast to watcher; grant select on all tables in schema holdfast to watcher")
    ward.finally_(lambda: ward.rows("drop owned by watcher; drop role watcher"))
    hf = Holdfast(f"postgresql://watcher:w@{ward.url.rpartition('@')[2]}")
    try:
        found = {finding.name: finding for finding in hf.doctor_sync()}
        assert found["horizon"].level == "unseen"
        assert found["horizon"].remedy == "grant pg_monitor to watcher"
        assert found["plan"].level == "unseen", "it may not claim"
        assert found["indexes"].level == "ok"
        assert exit_code(found.values()) == 1
        ward.rows("grant pg_monitor to watcher")
        assert [finding.level for finding in hf.doctor_sync("horizon")] == ["ok"]
    finally:
        hf.close_sync()


# Dead rows, freezing, settings


@cause(
    "dead_rows: warn: dead rows beside", "dead_rows: fail: dead rows beside", "settings: fail: autovacuum is off for"
)
def test_dead_rows(ward: Ward) -> None:
    ward.rows("alter table holdfast.inbox set (autovacuum_enabled = off)")
    try:
        assert ward.level("settings") == "fail"
        with psycopg.connect(ward.url) as session:  # its statistics arrive when it ends
            session.execute(ROWS)
            session.execute("delete from holdfast.inbox")
        wait_until(lambda: ward.level("dead_rows") == "fail")
        sentence = ward.find("dead_rows").sentence
        assert re.search("holdfast.inbox has 21,0.. dead rows beside 0 live ones", sentence), "and a few of other tests"
        with psycopg.connect(ward.url) as session:
            session.execute(ROWS)
        wait_until(lambda: ward.level("dead_rows") == "warn")

        def gone() -> bool:  # again: a snapshot elsewhere can keep the rows for a moment
            ward.rows((ward.find("dead_rows").remedy or "").rpartition("then run: ")[2] or "select 1")
            return ward.level("dead_rows") == "ok"

        wait_until(gone)
    finally:
        ward.rows("alter table holdfast.inbox reset (autovacuum_enabled)")
    assert ward.level("settings") == "ok"


ROWS = """
    insert into holdfast.inbox (partition_key, partition_bucket, payload)
    select 'k', 1, '{}' from generate_series(1, 21000)
"""


@cause("freeze: warn: transactions old", "freeze: fail: transactions old")
def test_freeze_age(ward: Ward) -> None:
    """The age is real and small; vacuum_failsafe_age, a setting of the server, is set so that it is much."""
    assert ward.level("freeze") == "ok"
    (row,) = ward.rows("select age(datfrozenxid) as age from pg_database where datname = current_database()")
    for share, level in ((1.5, "warn"), (1.0, "fail")):
        ward.rows(f"alter database postgres set vacuum_failsafe_age = {int(row['age'] * share)}")
        assert ward.level("freeze") == level
    ward.rows((ward.find("freeze").remedy or "").rpartition("then run: ")[2])
    assert ward.level("freeze") == "ok", "its rows are frozen now"
    ward.rows("alter database postgres reset vacuum_failsafe_age")
    assert ward.level("freeze") == "ok"


@pytest.mark.parametrize("name", ["fsync", "autovacuum", "full_page_writes", "track_counts"])
@cause("settings: fail: is off: ")
def test_a_setting_is_off(ward: Ward, name: str) -> None:
    set_system(ward, name, "off")
    try:
        found = ward.find("settings")
        assert (found.level, f"{name} is off" in found.sentence) == ("fail", True)
        for statement in (found.remedy or "").split("; "):
            ward.rows(statement)
        wait_until(lambda: ward.level("settings") == "ok")
    finally:
        set_system(ward, name, "on")


def set_system(ward: Ward, name: str, value: str) -> None:
    ward.rows(f"alter system set {name} = {value}")
    ward.rows("select pg_reload_conf()")

    def there() -> bool:
        with psycopg.connect(ward.url) as session:
            row = session.execute("select current_setting(%s)", [name]).fetchone()
            return row == (value,)

    wait_until(there)


def test_synchronous_commit_is_off_for_the_role(ward: Ward) -> None:
    ward.rows("alter role postgres set synchronous_commit = off")
    try:
        found = ward.find("settings")
        assert (found.level, found.remedy) == ("fail", "alter role postgres set synchronous_commit = on")
    finally:
        ward.rows("alter role postgres reset synchronous_commit")
    assert ward.level("settings") == "ok"


# Indexes, and the plan of the claim


def test_the_golden_list_is_true(ward: Ward) -> None:
    file = Path(indexes.__file__).with_suffix(".txt")
    text = "\n".join(line for line in (file.with_suffix(".sql")).read_text().splitlines() if line[:2] != "--")
    found = ward.rows(text.replace("$1::text", "'holdfast'"))
    wanted = "".join(f"{row['name']}: {row['definition']}\n" for row in found)
    stored = "".join(f"{line}\n" for line in file.read_text().splitlines() if not line.startswith("#"))
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        file.write_text(f"# Every index of a migrated database; see {Path(__file__).relative_to(ROOT)}.\n{wanted}")
        return
    assert stored == wanted, "HOLDFAST_RENEW_GOLDEN=1 .venv/bin/python -m pytest tests/schema tests/doctor -k golden"


@cause("indexes: fail: indexes are not as they should be: ", "plan: fail: the claim does not read ")
def test_an_index_is_dropped_and_the_remedy_makes_it_again(ward: Ward) -> None:
    ward.rows("drop index holdfast.idx_inbox_claim")
    found = ward.find("indexes")
    assert (found.level, "missing idx_inbox_claim" in found.sentence) == ("fail", True)
    plan = ward.find("plan")
    assert (plan.level, "does not read idx_inbox_claim" in plan.sentence) == ("fail", True)
    ward.rows((found.remedy or "").removeprefix("make it again: "))
    assert (ward.level("indexes"), ward.level("plan")) == ("ok", "ok")


@cause("indexes: warn: indexes that Holdfast did not make: ", "indexes: fail: indexes are not as they should be: ")
def test_an_index_is_added_changed_or_not_valid(ward: Ward) -> None:
    ward.rows("create table holdfast.theirs (id bigint primary key)")
    assert ward.level("indexes") == "ok", "a table that is not ours may have indexes"
    ward.rows("create index mine on holdfast.inbox (claimed_by)")
    found = ward.find("indexes")
    assert (found.level, "mine on inbox" in found.sentence) == ("warn", True)
    ward.rows("drop index holdfast.mine")
    ward.job(2)
    with pytest.raises(psycopg.errors.UniqueViolation):  # it leaves an index that is not valid
        ward.rows("create unique index concurrently mine on holdfast.inbox (partition_key)")
    found = ward.find("indexes")
    assert "invalid mine" in found.sentence
    ward.rows("delete from holdfast.inbox")
    ward.rows(found.remedy or "")
    assert ward.level("indexes") == "warn", "it is valid, and still not ours"
    ward.rows("drop index holdfast.mine, holdfast.idx_inbox_cancel")
    ward.rows("create index idx_inbox_cancel on holdfast.inbox (claimed_at)")
    found = ward.find("indexes")
    assert (found.level, "changed idx_inbox_cancel" in found.sentence) == ("fail", True)
    ward.rows("drop index holdfast.idx_inbox_cancel")
    ward.rows(indexes.golden()["idx_inbox_cancel"])
    assert ward.level("indexes") == "ok"


# Notifications, poolers, clocks


def test_notifications(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "WARN", 0.1)

    def arrives_soon() -> None:
        found = ward.find("notify")
        assert (found.level, found.unit) == ("ok", "ms"), found.sentence
        assert found.figure is not None and found.figure < 100

    undisturbed(arrives_soon, spare=0.02, times=20)
    assert ward.level("pooler") == "ok"


def test_the_clock_of_the_installation_is_moved(ward: Ward) -> None:
    (row,) = ward.rows("select pg_get_functiondef('holdfast.clock'::regproc) as text")
    for moved, level in (("3 s", "warn"), ("-1 h", "fail")):
        ward.rows(row["text"].replace("statement_timestamp()", f"statement_timestamp() + interval '{moved}'"))
        found = ward.find("clock")
        assert (found.level, "holdfast.clock()" in found.sentence) == (level, True)
    ward.rows(row["text"])
    assert ward.level("clock") == "ok"


def test_the_clock_of_this_machine_is_wrong(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    right = time.time
    for moved, level in ((3.0, "warn"), (-60.0, "fail"), (0.0, "ok")):
        monkeypatch.setattr(time, "time", lambda moved=moved: right() + moved)
        found = ward.find("clock")
        assert found.level == level, found


# Connections and locks


@cause("connections: warn: when none is left", "connections: fail: when none is left")
def test_connections(ward: Ward) -> None:
    assert ward.level("connections") == "ok"
    most = CONNECTIONS - 3

    def used() -> int:
        (row,) = ward.rows("select count(*) as used from pg_stat_activity where backend_type = 'client backend'")
        return int(row["used"])

    def filled(number: float, level: str) -> bool:  # sessions of tests before may end just now
        while used() < number:
            ward.session()
        return ward.level("connections") == level

    wait_until(lambda: filled(most * 0.85, "warn"))
    wait_until(lambda: filled(most - 1, "fail"))
    ward._stack.close()
    wait_until(lambda: ward.level("connections") == "ok")


@cause("locks: warn: for a lock; session", "locks: fail: for a lock; session")
def test_lock_waits(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two real sessions, of which one waits for the other; the limits of 5 s and 30 s are lowered."""
    holder, waiter = ward.session(), ward.session()
    holder.execute("lock table holdfast.queues")
    thread = threading.Thread(target=lambda: waiter.execute("select from holdfast.queues"))
    thread.start()
    try:
        assert ward.level("locks") == "ok", "not for long"
        monkeypatch.setattr(locks, "WARN", 0.0)
        wait_until(lambda: ward.level("locks") == "warn")
        found = ward.find("locks")
        assert f"session {waiter.info.backend_pid} waits for" in found.sentence
        assert f"because of session {holder.info.backend_pid}" in found.sentence
        monkeypatch.setattr(locks, "FAIL", 0.0)
        assert ward.level("locks") == "fail"
    finally:
        holder.rollback()
        thread.join()
    assert ward.level("locks") == "ok"


# The installation


def test_partitions(ward: Ward) -> None:
    days = [row["name"] for row in ward.rows(
        "select to_char(now() at time zone 'UTC' + make_interval(days => n), '\"archive_\"YYYYMMDD') as name"
        " from generate_series(1, 3) n")]  # fmt: skip
    for day, level in ((days[2], "warn"), (days[0], "fail")):
        ward.rows(f"drop table holdfast.{day}")
        assert ward.level("partitions") == level
    ward.rows("select holdfast.make_partitions(7)")
    assert ward.level("partitions") == "ok"
    ward.rows(
        """insert into holdfast.archive (
               id, seq, partition_key, partition_bucket, queue, priority, payload, payload_version, status, attempts,
               max_attempts, lease_generation, available_at, created_at, finished_at)
           values (
               gen_random_uuid(), 1, 'k', 1, 'default', 1, '{}', 1, 'completed', 1, 1, 1, now(), now(), '2020-01-01')"""
    )
    found = ward.find("partitions")
    assert (found.level, "1 row in archive_default" in found.sentence) == ("fail", True)
    ward.rows("delete from holdfast.archive_default")
    assert ward.level("partitions") == "ok"


HELD = {"status": "'processing'", "claimed_by": "'w1'", "claimed_at": "now()", "attempts": "1"}


def test_expired_leases_and_the_sweep(ward: Ward) -> None:
    ward.job(2, **HELD, lease_expires_at="now() - interval '20 s'")
    found = ward.find("leases")
    assert (found.level, "the leases of 2 jobs expired, the oldest 2" in found.sentence) == ("warn", True)
    ward.rows("update holdfast.inbox set lease_expires_at = now() - interval '2 m'")
    assert ward.level("leases") == "fail"
    ward.rows("delete from holdfast.inbox")
    ward.rows("insert into holdfast.chores (name, ran_at, result) values ('sweep', now(), '{}')")
    assert ward.level("leases") == "ok"
    ward.rows("""update holdfast.chores set result = '{"error": "denied"}'""")
    assert (ward.level("leases"), ward.find("leases").sentence) == ("fail", "the sweep fails: denied")


def test_orphaned_leases(ward: Ward) -> None:
    ward.job(3, **HELD, lease_expires_at="now() + interval '1 m'")
    found = ward.find("orphans")
    assert (found.level, found.figure) == ("warn", 3.0)
    assert "w1, not in the registry" in found.sentence
    ward.worker(silent=45)
    assert re.search(r"w1, silent for (4[5-9]|5\d)\b", ward.find("orphans").sentence)
    ward.worker()
    assert ward.level("orphans") == "ok"


def test_the_ring(ward: Ward) -> None:
    ward.rows("insert into holdfast.queues (name, owned) values ('default', true)")
    agreed = digest({"default": ["w1", "w2"]})
    for name in ("w1", "w2"):
        ward.worker(name, counters={"ring": agreed})
    assert (ward.level("ring"), ward.find("ring").figure) == ("ok", 2.0)
    ward.worker("w2", counters={"ring": digest({"default": ["w2"]})})
    found = ward.find("ring")
    assert (found.level, "1 worker of queue default sees other members" in found.sentence) == ("fail", True)
    assert "holdfast workers drain w2" in (found.remedy or "")
    ward.rows("update holdfast.workers set started_at = now() where id = 'w2'")
    assert ward.level("ring") == "ok", "it has only just started"
    ward.worker("w2", silent=25)
    assert ward.level("ring") == "warn"


async def test_workers_say_which_ring_they_see(hf: Holdfast, inbox: Inbox) -> None:
    await hf.set_queue("default", owned=True)
    hf.task(name="job")(lambda: None)
    seen = "select id from holdfast.workers where (metadata -> 'counters' ->> 'ring')::bigint = %s"
    async with hf.worker(heartbeat=0.1) as worker:
        await until(lambda: inbox.rows(seen, digest({"default": [worker.name]})) != [])
        (finding,) = await hf.doctor("ring")
        assert finding.level == "ok"


def test_versions(ward: Ward) -> None:
    ward.worker(version="0.0.9")
    assert (ward.level("versions"), "0.0.9, 0.1.0" in ward.find("versions").sentence) == ("warn", True)
    ward.worker(version=None)
    assert (ward.level("versions"), "does not report its release" in ward.find("versions").sentence) == ("fail", True)
    ward.worker()
    assert ward.level("versions") == "ok"
    ward.rows("insert into holdfast.migrations (version, name, oldest) values (9001, 'later', 9001)")
    assert "migration 9001 is not compatible" in ward.find("versions").sentence
    ward.rows("update holdfast.migrations set oldest = %s where version = 9001", newest())
    assert ward.level("versions") == "ok"
    ward.rows("delete from holdfast.migrations where version = 9001")
    (row,) = ward.rows("delete from holdfast.migrations where version = %s returning name, oldest", newest())
    found = ward.find("versions")
    assert (found.level, found.remedy) == ("fail", "holdfast migrate")
    ward.rows("insert into holdfast.migrations (version, name, oldest) values (%s, %s, %s)", newest(), *row.values())


# The work


def test_unclaimable(ward: Ward) -> None:
    ward.job(2)
    ward.job(ordered="true")
    found = ward.find("unclaimable")
    assert found.level == "warn"
    assert "no live worker of queue default can run job version 1: 3 jobs wait" in found.sentence
    ward.rows("update holdfast.inbox set available_at = now() - interval '11 m'")
    assert ward.level("unclaimable") == "fail"
    ward.worker()
    assert ward.level("unclaimable") == "ok"
    ward.job(owned="true", payload_version="2")
    assert "version 2: 1 job waits" in ward.find("unclaimable").sentence


def test_backlog(ward: Ward) -> None:
    ward.job(available_at="now() - interval '30 s'")
    assert ward.level("backlog") == "ok", "nobody could run it: that is another check"
    ward.worker(counters={"running": 4})
    found = ward.find("backlog")
    assert (found.level, "4 of 4 hands" in found.sentence, "--concurrency" in (found.remedy or "")) == (
        "warn",
        True,
        True,
    )
    ward.rows("update holdfast.inbox set available_at = now() - interval '11 m'")
    assert ward.level("backlog") == "fail"
    ward.rows("insert into holdfast.queues (name, paused_at) values ('default', now())")
    assert ward.level("backlog") == "ok"


def test_paused(ward: Ward) -> None:
    ward.rows("insert into holdfast.queues (name, paused_at) values ('mail', now() - interval '11 m')")
    assert ward.level("paused") == "ok", "nothing waits"
    for course in ("priority", "ordered", "owned"):
        ward.job(1, "mail", **{course: "1" if course == "priority" else "true"})
        found = ward.find("paused")
        assert (found.level, found.remedy) == ("warn", "holdfast queue resume mail")
        ward.rows("delete from holdfast.inbox")


def test_hot_keys(ward: Ward) -> None:
    ward.job(100, ordered="true")
    assert ward.level("hot_keys") == "ok"
    ward.job(1, ordered="true")
    found = ward.find("hot_keys")
    assert (found.level, found.figure) == ("warn", 101.0)
    assert "share the ordered key 'k'" in found.sentence
    ward.rows("update holdfast.inbox set created_at = now() - interval '11 m'")
    assert ward.level("hot_keys") == "fail"


def test_dead_letters(ward: Ward) -> None:
    ward.job(status="'dead_letter'", dead_at="now() - interval '2 d'", last_error="'Boom'")
    found = ward.find("dead_letters")
    assert (found.level, "1 dead letter in all" in found.sentence) == ("ok", True)
    ward.job(status="'dead_letter'", dead_at="now()", last_error="'Boom: no'")
    found = ward.find("dead_letters")
    assert (found.level, found.figure, "job: Boom: no" in found.sentence) == ("warn", 1.0, True)


# Other installations


async def test_another_schema(database_url: str) -> None:
    await migrate(Database(direct(database_url), "order"))
    hf = Holdfast(direct(database_url), schema="order")
    try:
        assert {finding.name: finding.sentence for finding in await hf.doctor() if finding.level != "ok"} == {}
    finally:
        await hf.close()


async def test_no_schema_at_all(database_url: str) -> None:
    hf = Holdfast(database_url)
    try:
        found = {finding.name: finding for finding in await hf.doctor()}
    finally:
        await hf.close()
    assert found["versions"].level == "fail" and found["versions"].remedy == "holdfast migrate"
    assert found["leases"].level == "unseen"
