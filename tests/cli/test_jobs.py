"""job, dead, queue, workers, stats, health: what they show, change and refuse."""

import json
import re
from uuid import UUID, uuid4

import pytest
from tests.cli.conftest import Shell

RED = "\x1b[31mred\x1b[0m\x07"


def test_enqueue_prints_the_id(shell: Shell) -> None:
    answer = shell(
        "enqueue", "send_receipt", '{"order_id": 9182}', "-q", "mail", "--key", "order:9182", "--priority", "0",
        "--max-attempts", "3", "--version", "2", "--delay", "5m", "--idempotency-key", "receipt-9182-v1",
    )  # fmt: skip
    id = UUID(answer.out.strip())
    (row,) = shell.sql(
        "select *, available_at - created_at > interval '299 s' as delayed from holdfast.inbox where id = %s", id
    )
    assert row["payload"] == {"type": "send_receipt", "order_id": 9182}
    assert [row[name] for name in ("queue", "partition_key", "priority", "max_attempts", "payload_version")] == [
        "mail", "order:9182", 0, 3, 2,
    ]  # fmt: skip
    assert row["delayed"]


def test_a_repeated_key_finds_the_first_job_and_a_conflict_is_a_message(shell: Shell) -> None:
    words = ["enqueue", "greet", '{"n": 1}', "--idempotency-key", "once"]
    assert shell(*words, "--json").json == shell(*words, "--json").json
    other = shell("enqueue", "greet", '{"n": 2}', "--idempotency-key", "once")
    assert other.code == 1
    assert "another payload" in other.err
    assert "Traceback" not in other.err
    assert "Use a new key" in other.err


def test_job_list_and_show(shell: Shell) -> None:
    first, second = shell.enqueue("send_receipt", queue="mail"), shell.enqueue("import_file")
    assert {row["id"] for row in shell("job", "list", "--json").json} == {str(first), str(second)}
    assert [row["id"] for row in shell("job", "list", "-q", "mail", "--json").json] == [str(first)]
    assert [row["id"] for row in shell("job", "list", "--kind", "import_file", "--json").json] == [str(second)]
    assert shell("job", "list", "--status", "completed", "--json").json == []
    assert len(shell("job", "list", "--limit", "1", "--json").json) == 1
    assert "no such jobs" in shell("job", "list", "--status", "dead_letter").out
    none = "live jobs. For ended ones: --status completed, failed, cancelled …\n"
    assert shell("job", "list", "-q", "nobody").out == f"No such {none}"
    assert "ended ones: --status completed" in shell("job", "list", "-q", "other").out
    table = shell("job", "list").out
    assert table.splitlines()[0].split()[:3] == ["id", "queue", "kind"]
    shown = shell("job", "show", str(first), "--json").json
    assert shown["payload"] == {"type": "send_receipt"}
    assert shown["next"] == "no worker is live; start a worker: holdfast worker module:attribute"
    text = shell("job", "show", str(first)).out
    for word in ("send_receipt", "pending", "next", "attempts", "generation"):
        assert word in text


def test_a_job_that_expires(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(SHOP)
    by_task = ["--app", "shop:hf", "--key", "order:1", "send_receipt", '{"order_id": 1}']
    for words in (by_task, ["greet"]):
        id = UUID(shell("enqueue", "--expires", "10m", *words).out.strip())
        (row,) = shell.sql("select expires_at - created_at as left from holdfast.inbox where id = %s", id)
        assert 599 < row["left"].total_seconds() < 601
        for mistake, problem in (("0s", "above zero"), ("soon", "expected a duration")):
            refused = shell("enqueue", "--expires", mistake, *words)
            assert (refused.code, problem in refused.err, "Traceback" in refused.err) == (1, True, False)
    refused = shell("enqueue", "greet", "--expires", "1m", "--delay", "1h")
    assert (refused.code, "expires: the job is due at" in refused.err) == (1, True)
    assert "\nexpires at       20" in shell("job", "show", str(id)).out
    shell.sql("update holdfast.inbox set expires_at = now() - interval '1 s' where id = %s", id)
    assert "; the next claim, or housekeeping, ends it" in shell("job", "show", str(id)).out
    shell.sql("select * from holdfast.expire_jobs(array[%s])", id)
    shown = shell("job", "show", str(id)).out
    assert "\nstatus           expired\n" in shown and ", before it started (not started by 20" in shown
    assert [row["id"] for row in shell("job", "list", "--status", "expired", "--json").json] == [str(id)]
    assert "last 5 min   0 completed, 0 failed, 0 dead letters, 1 expired\n" in shell("stats").out


def test_a_job_that_is_not_there(shell: Shell) -> None:
    for words in (["job", "show"], ["job", "cancel", "--yes"]):
        answer = shell(*words, str(uuid4()))
        assert answer.code == 1
        assert answer.err.startswith("holdfast: There is no")


def test_cancel_asks(shell: Shell) -> None:
    id = shell.enqueue()
    refused = shell("job", "cancel", str(id), stdin="n\n")
    assert refused.code == 1
    assert shell.sql("select status::text from holdfast.jobs") == [{"status": "pending"}]
    agreed = shell("job", "cancel", str(id), "--reason", "ordered twice", stdin="y\n")
    assert agreed.code == 0
    assert agreed.out.splitlines()[-1].endswith("cancelled")
    assert shell.sql("select status::text, last_error from holdfast.jobs") == [
        {"status": "cancelled", "last_error": "ordered twice"}
    ]
    assert [row["id"] for row in shell("job", "list", "--status", "cancelled", "--json").json] == [str(id)]


def test_cancel_of_a_running_job_tells_its_handler(shell: Shell) -> None:
    id = shell.enqueue()
    shell.sql("update holdfast.inbox set status = 'processing', claimed_by = 'w', lease_expires_at = now() + '1h'")
    answer = shell("job", "cancel", str(id), "--yes")
    assert answer.out.strip() == "its handler is being told to stop"
    assert shell.sql("select cancel_requested_at is not null as asked from holdfast.inbox") == [{"asked": True}]
    assert "was told to stop" in shell("job", "show", str(id)).out


def test_dead_letters_are_listed_by_filter(shell: Shell) -> None:
    mail = shell.dead_letter("send_receipt", "SMTPError: 50% off_", queue="mail")
    other = shell.dead_letter("import_file", "OSError: gone")
    assert {row["id"] for row in shell("dead", "list", "--json").json} == {str(mail), str(other)}
    for flags in (["-q", "mail"], ["--kind", "send_receipt"], ["--error", "50% off_"]):
        assert [row["id"] for row in shell("dead", "list", *flags, "--json").json] == [str(mail)], flags
    shell.sql("update holdfast.inbox set dead_at = now() - interval '3 h' where id = %s", mail)
    assert [row["id"] for row in shell("dead", "list", "--since", "2h", "--json").json] == [str(other)]
    assert "OSError: gone" in shell("dead", "list").out
    assert "expected a duration" in shell("dead", "list", "--since", "yesterday").err


def test_revive_by_id(shell: Shell) -> None:
    id, other = shell.dead_letter(), shell.dead_letter()
    assert shell("dead", "revive", str(id)).out.strip() == "revived 1 of 1"
    rows = shell.sql("select id, status::text, attempts, lease_generation from holdfast.inbox order by seq")
    assert rows == [
        {"id": id, "status": "pending", "attempts": 0, "lease_generation": 5},
        {"id": other, "status": "dead_letter", "attempts": 5, "lease_generation": 5},
    ]
    again = shell("dead", "revive", str(id), "--json")
    assert again.code == 1
    assert '"revived": []' in again.out
    assert f"not dead letters, or locked by another operator: {id}" in again.err


def test_revive_by_filter_asks_and_can_be_tried_dry(shell: Shell) -> None:
    mail = [shell.dead_letter(queue="mail") for _ in range(3)]
    shell.dead_letter(queue="files")
    dry = shell("dead", "revive", "-q", "mail", "--dry-run")
    assert dry.out.splitlines()[0] == "would revive 3"
    assert {UUID(line.strip()) for line in dry.out.splitlines()[1:]} == set(mail)
    listed = shell("dead", "revive", "-q", "mail", "--dry-run", "--json").json
    assert {UUID(id) for id in listed["would_revive"]} == set(mail)
    assert shell("dead", "revive", "-q", "mail", stdin="n\n").code == 1
    assert len(shell("dead", "list", "--json").json) == 4
    assert len(shell("dead", "revive", "-q", "mail", "--yes", "--json").json["revived"]) == 3
    assert shell("dead", "revive", "--all", stdin="y\n").out.splitlines()[-1].endswith("revived 1 of 1")
    assert shell("dead", "revive", "--all").out.strip() == "revived 0 of 0"


@pytest.mark.parametrize("flags", [[], ["00000000-0000-7000-8000-000000000000", "--all"]])
def test_revive_wants_ids_or_a_filter(shell: Shell, flags: list[str]) -> None:
    answer = shell("dead", "revive", *flags)
    assert answer.code == 2
    assert "by id or by a filter" in answer.err


def test_discard_by_id_and_by_filter(shell: Shell) -> None:
    id, *mail = shell.dead_letter(), *[shell.dead_letter(queue="mail") for _ in range(2)]
    assert shell("dead", "discard", str(id), stdin="n\n").code == 1
    assert shell("dead", "discard", str(id), "--yes").out.strip() == "discarded 1 of 1"
    assert shell.sql("select id, status::text, last_error from holdfast.archive") == [
        {"id": id, "status": "discarded", "last_error": "Boom: no"}
    ]
    assert [row["id"] for row in shell("job", "list", "--status", "discarded", "--json").json] == [str(id)]
    shown = shell("job", "show", str(id)).out
    assert "it was discarded at " in shown and "(Boom: no)" in shown
    again = shell("dead", "discard", str(id), "--yes")
    assert again.code == 1
    assert f"not dead letters, or locked by another operator: {id}" in again.err
    dry = shell("dead", "discard", "-q", "mail", "--error", "Boom", "--dry-run")
    assert dry.out.splitlines()[0] == "would discard 2"
    assert {UUID(line.strip()) for line in dry.out.splitlines()[1:]} == set(mail)
    assert len(shell("dead", "list", "--json").json) == 2
    assert set(shell("dead", "discard", "--all", "--yes", "--json").json["discarded"]) == set(map(str, mail))
    assert "by id or by a filter" in shell("dead", "discard").err


def test_a_dead_letter_is_not_cancelled_silently(shell: Shell) -> None:
    id = shell.dead_letter()
    answer = shell("job", "cancel", str(id), "--yes")
    assert answer.code == 1
    assert f"holdfast dead discard {id}" in answer.err
    both = shell("job", "cancel", str(id), str(shell.enqueue()), "--yes")
    assert (both.code, both.out) == (1, "cancelled 1 of 2; 0 handlers are being told to stop\n")
    assert f"dead letters (holdfast dead discard): {id}" in both.err


def test_cancel_by_filter(shell: Shell) -> None:
    mail = [shell.enqueue(queue="mail") for _ in range(3)]
    running = shell.enqueue("other", queue="mail")
    shell.sql("update holdfast.inbox set status = 'processing', claimed_by = 'w' where id = %s", running)
    kept = shell.enqueue()
    dead = shell.dead_letter(queue="mail")
    assert "by id or by a filter" in shell("job", "cancel", "--yes").err
    dry = shell("job", "cancel", "-q", "mail", "--dry-run", "--json").json
    assert set(dry["would_cancel"]) == {*map(str, mail), str(running)}
    assert shell("job", "cancel", "-q", "mail", stdin="n\n").code == 1
    assert set(shell("job", "cancel", "-q", "mail", "--status", "pending", "--yes", "--json").json["cancelled"]) == set(
        map(str, mail)
    )
    told = shell("job", "cancel", "--kind", "other", "--reason", "enough", stdin="y\n")
    assert told.out.endswith("cancelled 0 of 1; 1 handlers are being told to stop\n")
    rows = shell.sql("select id, cancel_requested_at is not null as told from holdfast.inbox order by seq")
    assert [(row["id"], row["told"]) for row in rows] == [(running, True), (kept, False), (dead, False)]


def test_run_now(shell: Shell) -> None:
    later, mail, due = shell.enqueue(), shell.enqueue(queue="mail"), shell.enqueue()
    shell.sql("update holdfast.inbox set available_at = now() + interval '1 h' where id <> %s", due)
    assert shell("job", "run-now", str(later)).out == "1 of 1 are due now\n"
    again = shell("job", "run-now", str(later), str(due))
    assert (again.code, again.out) == (1, "0 of 2 are due now\n")
    assert "not waiting for a time or a retry" in again.err
    assert shell("job", "run-now", "--all", "--dry-run", "--json").json == {"would_run_now": [str(mail)]}
    assert shell("job", "run-now", "-q", "mail", "--yes", "--json").json == {"due": [str(mail)]}
    assert shell.sql("select from holdfast.inbox where available_at > now()") == []


def test_pause_and_resume(shell: Shell) -> None:
    shell.enqueue(queue="mail")
    assert shell("queue", "pause", "mail", stdin="n\n").code == 1
    assert shell("queue", "list", "--json").json[0]["paused_at"] is None
    assert "holdfast queue resume mail" in shell("queue", "pause", "mail", "--yes").out
    assert shell("queue", "pause", "nothing", "--yes").code == 0
    nothing, queue = sorted(shell("queue", "list", "--json").json, key=lambda row: str(row["queue"] != "nothing"))
    assert (nothing["queue"], nothing["claim_age"], queue["claim_age"] >= 0) == ("nothing", None, True)
    assert (queue["queue"], queue["pending"], queue["paused_at"] is None) == ("mail", 1, False)
    (job,) = shell("job", "list", "--json").json
    assert "queue mail is paused" in shell("job", "show", job["id"], "--json").json["next"]
    assert shell("queue", "resume", "mail").out == "queue mail is resumed\n"
    assert shell("queue", "resume", "mail").out == "queue mail was not paused\n"
    assert shell("queue", "resume", "nobody").out == "queue nobody was not paused\n"
    assert shell("queue", "list", "--json").json[0]["paused_at"] is None


def test_stats(shell: Shell) -> None:
    empty = shell("stats", "--json").json
    assert (empty["depth"], empty["claim_age"], empty["retry_rate"], empty["queues"]) == (0, 0.0, 0.0, [])
    shell.enqueue("send_receipt")
    shell.dead_letter()
    since = "update holdfast.inbox set available_at = now() - interval '100 s' where status = 'pending'"
    shell.sql(since)
    facts = shell("stats", "--json").json
    assert (facts["depth"], facts["dead_letters"], facts["live_workers"]) == (1, 1, 0)
    assert 100 <= facts["claim_age"] < 130
    assert facts["unclaimable"][0]["reason"] == "no live worker serves this queue"
    shell.sql(since)
    text = shell("stats").out
    for words in ("depth        1 pending", "retry rate   0.0%", "no worker can run:"):
        assert words in text
    assert re.search(r"^claim age    1[0-3]\d\.\d s$", text, re.M)


def test_stats_come_from_the_gauges_unless_asked_for_exact_ones(shell: Shell) -> None:
    shell.enqueue("send_receipt", queue="mail")
    shell.sql(
        "insert into holdfast.gauges (name, queue, label, value, exact, at)"
        " values ('jobs', 'mail', 'pending', 340000, false, now() - interval '7 seconds')"
    )
    facts = shell("stats", "--json").json
    assert (facts["depth"], facts["exact"], facts["queues"][0]["exact"]) == (340_000, False, False)
    assert 7 <= facts["measured"] < 60
    shell.sql("update holdfast.gauges set at = now() - interval '7 seconds'")
    text = shell("stats").out
    assert "depth        ≈ 340000 pending" in text
    assert "measured" in text
    exact = shell("stats", "--exact", "--json").json
    assert (exact["depth"], exact["exact"], exact["measured"]) == (1, True, 0)
    assert exact.keys() == facts.keys()
    assert exact["queues"][0].keys() == facts["queues"][0].keys()
    assert exact["unclaimable"][0].keys() == facts["unclaimable"][0].keys()


ENDED = """
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
        max_attempts, lease_generation, available_at, created_at, finished_at)
    select gen_random_uuid(), n, 'k', 1, %s, 1, 'job', '{"type": "job"}', 1, %s::holdfast.inbox_status, 1, 5, 1, now(),
           now(), now() - %s::interval
    from generate_series(1, %s) n
"""


def test_stats_show_what_ended_lately(shell: Shell) -> None:
    for queue, status, ago, jobs in (
        ("mail", "completed", "50 m", 7), ("mail", "completed", "1 s", 3), ("mail", "failed", "2 s", 2),
        ("files", "cancelled", "10 m", 1), ("mail", "completed", "2 h", 50),
    ):  # fmt: skip
        shell.sql(ENDED, queue, status, ago, jobs)
    shell.dead_letter(queue="mail")
    facts = shell("stats", "--json").json
    minutes, hour = facts["lately"]
    assert (minutes["seconds"], hour["seconds"], hour["estimated"]) == (300, 3600, False)
    assert [minutes[name] for name in ("completed", "failed", "dead_letter", "cancelled")] == [3, 2, 1, 0]
    assert [hour[name] for name in ("completed", "failed", "dead_letter", "cancelled")] == [10, 2, 1, 1]
    rows = {row["queue"]: row for row in facts["queues"]}
    assert [rows["mail"][f"{name}_1h"] for name in ("completed", "failed", "dead_letters")] == [10, 2, 1]
    assert (rows["files"]["pending"], rows["files"]["completed_1h"]) == (0, 0)
    text = shell("stats").out
    assert "last 5 min   3 completed, 2 failed, 1 dead letters\n" in text
    assert "last hour    10 completed, 2 failed, 1 dead letters, 1 cancelled\n" in text


def test_what_ended_lately_is_projected_from_the_newest_pages(shell: Shell) -> None:
    for ago in range(40, 0, -1):
        shell.sql(ENDED, "mail", "completed", f"{ago} m", 100)
    read = shell.sql("select * from holdfast.ended_lately('{300, 3600}', 10)")
    (reach,) = [row["reach"] for row in read if row["queue"] is None]
    assert 60 < reach < 900
    counted = sum(row["jobs"] for row in read if row["seconds"] == 3600)  # after midnight, in two partitions
    assert counted < 1000, "the other pages are not read"
    plan = shell.sql("select * from holdfast.ended_lately('{300, 3600}', 100000)")
    assert [row["reach"] for row in plan if row["queue"] is None] == [None]
    assert sum(row["jobs"] for row in plan if row["seconds"] == 3600) == 4000
    from holdfast.cli.stats import lately

    minutes, hour = lately([{**row} for row in read], [])
    assert hour["estimated"]
    assert 3600 <= hour["completed"] <= 8400, "about 100 a minute"
    assert minutes["estimated"] == (reach < 300)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_all_times_are_in_utc(shell: Shell, zone: str) -> None:
    shell.sql(f"alter database \"{shell.sql('select current_database() as name')[0]['name']}\" set timezone = '{zone}'")
    id = shell.enqueue()
    shell.sql(
        "update holdfast.inbox set available_at = '2099-01-02 03:04:05Z', created_at = '2026-02-03 04:05:06Z', "
        "attempts = 1, errors = jsonb_build_array(jsonb_build_object('attempt', 1, 'worker', 'w', 'error', 'E', "
        "'message', 'm', 'at', '2026-03-04 05:06:07Z'::timestamptz)) where id = %s",
        id,
    )
    shell.sql(
        "insert into holdfast.workers (id, metadata) values "
        '(\'w\', \'{"queues": ["default"], "kinds": {"send_receipt": [1, 1]}}\')'
    )
    shell.environment = {"TZ": zone}
    shown = shell("job", "show", str(id)).out
    for time in ("due at 2099-01-02 03:04:05Z", "2026-02-03 04:05:06Z", "attempt 1 on w at 2026-03-04 05:06:07Z:"):
        assert time in shown
    assert "2099-01-02 03:04:05Z" in shell("job", "list").out
    assert shell("job", "list", "--json").json[0]["available_at"] == "2099-01-02T03:04:05Z"


SHOP = """
from holdfast import Holdfast

hf = Holdfast()

@hf.task(queue="mail", max_attempts=3, priority=0, version=2, ordered=True)
async def send_receipt(order_id: int, email: str = "") -> None: ...
"""


def test_enqueue_with_the_application_applies_the_tasks_settings(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(SHOP)
    words = ["enqueue", "--app", "shop:hf", "--key", "order:9182", "send_receipt"]
    id = UUID(shell(*words, '{"order_id": 9182}').out.strip())
    (row,) = shell.sql("select * from holdfast.inbox where id = %s", id)
    names = ("queue", "max_attempts", "priority", "payload_version", "ordered", "partition_key")
    assert [row[name] for name in names] == ["mail", 3, 0, 2, True, "order:9182"]
    assert row["payload"] == {"type": "send_receipt", "order_id": 9182}
    other = shell(*words, '{"order_id": 1}', "-q", "other", "--max-attempts", "1", "--idempotency-key", "k", "--json")
    (row,) = shell.sql("select * from holdfast.inbox where id = %s", UUID(other.json["id"]))
    assert (row["queue"], row["max_attempts"], row["idempotency_key"]) == ("other", 1, "k")
    assert shell("enqueue", "send_receipt", '{"order_id": 2}', "--key", "k", HOLDFAST_ENQUEUE_APP="shop:hf").code == 0
    for arguments, problem in (
        ('{"order_id": "one"}', "order_id: Expected `int`"),
        ("{}", "order_id"),
        ('{"order_id": 1, "colour": "red"}', "colour"),
    ):
        refused = shell(*words, arguments)
        assert refused.code == 1
        assert problem in refused.err
        assert "Traceback" not in refused.err
    unknown = shell("enqueue", "--app", "shop:hf", "fly")
    assert (unknown.code, "shop:hf has no task 'fly'; it has send_receipt" in unknown.err) == (1, True)
    assert "with --app" in shell(*words, "--version", "1").err
    assert "with --app" in shell(*words, "--schema", "other").err
    assert len(shell("job", "list", "--json").json) == 3


def test_a_retry_that_waits_is_not_scheduled(shell: Shell) -> None:
    for attempts in (0, 1):
        shell.sql("update holdfast.inbox set attempts = %s where id = %s", attempts, shell.enqueue())
    shell.sql("update holdfast.inbox set available_at = now() + interval '1 h'")
    shell.enqueue()
    (queue,) = shell("queue", "list", "--json").json
    assert [queue[name] for name in ("pending", "due", "scheduled", "retrying")] == [3, 1, 1, 1]


def test_stats_and_workers_stand_heartbeats_written_by_hand(shell: Shell) -> None:
    shell.sql("insert into holdfast.workers (id, metadata) values ('a', null), ('b', '[1]'), ('c', '{\"version\": 1}')")
    assert shell("stats", "--json").json["live_workers"] == 3
    assert {row["id"] for row in shell("workers", "list", "--json").json} == {"a", "b", "c"}
    assert "live" in shell("workers", "list").out


def test_health(shell: Shell) -> None:
    alone = shell("health")
    assert alone.code == 1
    assert "no live worker" in alone.out
    assert shell("health", "--no-workers").out.strip() == "healthy"
    shell.sql("insert into holdfast.workers (id) values ('me')")
    assert shell("health", "--json").json["healthy"] is True
    shell.enqueue()
    shell.sql("update holdfast.inbox set available_at = now() - interval '100 s'")
    late = shell("health")
    assert late.code == 1
    assert "due work has waited 10" in late.out
    for longer in ("300", "300s", "5m"):
        assert shell("health", "--max-age", longer).code == 0


def stuck(shell: Shell, ago: str = "100 s") -> None:
    """A job of a worker that is gone."""
    shell.enqueue()
    shell.sql(
        "update holdfast.inbox set status = 'processing', claimed_by = 'gone', lease_expires_at = now() - %s::interval",
        ago,
    )


def swept(shell: Shell, ago: str, error: str | None = None) -> None:
    result = json.dumps({"rows": 0, "more": False, "every": 40.0, **({"error": error} if error else {})})
    shell.sql("delete from holdfast.chores")
    shell.sql("insert into holdfast.chores values ('sweep', now() - %s::interval, null, %s::jsonb)", ago, result)


def test_health_says_when_the_sweep_does_not_run(shell: Shell) -> None:
    shell.sql("insert into holdfast.workers (id, started_at) values ('me', now() - interval '1 h')")
    assert shell("health").out == "healthy\n", "it may not have been due yet"
    swept(shell, "100 s")
    assert shell("health").out == "healthy\n"
    swept(shell, "150 s")
    assert re.sub("1[5-9][0-9] s", "150 s", shell("health").out) == (
        "the sweep has not run for 150 s, so jobs get stuck when their worker dies; start a worker, or restart those "
        'that run: their log says what is wrong, in lines with "housekeeping"\n'
    )
    shell.sql("update holdfast.workers set started_at = now()")
    assert shell("health").out == "healthy\n", "who has just started waits for other keepers first"
    stuck(shell)
    assert "the sweep has not run for 1" in shell("health").out
    shell.sql("delete from holdfast.chores")
    assert "the sweep has never run, so a job is stuck;" in shell("health").out
    assert shell("health", "--max-age", "5m").code == 0


def test_health_says_why_the_sweep_leaves_something(shell: Shell) -> None:
    shell.sql("insert into holdfast.workers (id, started_at) values ('me', now() - interval '1 h')")
    for _ in range(2):
        stuck(shell)
    swept(shell, "1 s")
    assert "2 jobs are stuck: the lease ran out 10" in shell("health").out
    swept(shell, "1 s", f"InternalServerError: {RED} no\nwhy")
    answer = shell("health")
    assert "the sweep fails, and 2 jobs are stuck with workers that are gone: InternalServerError" in answer.out
    assert RED not in answer.out
    assert "failed: sweep: InternalServerError" in shell("stats").out


def test_what_waits_for_each_chore_is_counted(shell: Shell) -> None:
    def backlog() -> dict[str, int]:
        return {row["name"]: row["backlog"] for row in shell("stats", "--json").json["chores"]}

    none = {"archive": 0, "bury": 0, "expire": 0, "forget": 0, "partitions": 0, "retention": 0, "sweep": 0}
    assert backlog() == none
    assert "housekeeping no sweep yet\n" in shell("stats").out
    stuck(shell)
    shell.sql(
        "insert into holdfast.dedupe (key, job_id, payload_hash, expires_at)"
        " select n::text, gen_random_uuid(), '', now() - interval '1 s' from generate_series(1, 10100) n"
    )
    shell.sql(
        "insert into holdfast.once values ('done', gen_random_uuid(), 1, now(), now() - interval '31 d'),"
        " ('entered', gen_random_uuid(), 1, now() - interval '31 d', null), ('new', gen_random_uuid(), 1, now(), null)"
    )
    late = "expires_at = now() - interval '1 s'"
    for columns in ("status = 'completed'", "attempts = 5", "status = 'dead_letter'", late):
        shell.sql(f"update holdfast.inbox set {columns} where id = %s", shell.enqueue())
    shell.sql(
        "create table holdfast.archive_20200101 partition of holdfast.archive"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    (row,) = shell.sql("select 'archive_' || to_char(now() at time zone 'UTC' + '7 days', 'YYYYMMDD') as name")
    shell.sql(f"drop table holdfast.{row['name']}")
    ones = {"archive": 1, "expire": 1, "partitions": 1, "retention": 1, "sweep": 1}
    assert backlog() == {**ones, "bury": 2, "forget": 10_002}
    words = "waiting: archive 1, bury 2, expire 1, forget 10000 or more, partitions 1, retention 1, sweep 1"
    assert words in shell("stats").out


def test_health_of_nothing(bare: Shell) -> None:
    answer = bare("health", "--json")
    assert answer.code == 1
    assert '"healthy": false' in answer.out
    assert "holdfast migrate" in answer.out


def test_health_says_when_the_server_may_forget(shell: Shell) -> None:
    (row,) = shell.sql("select current_database() as name")
    shell.sql(f'alter database "{row["name"]}" set synchronous_commit = off')
    answer = shell("health", "--no-workers")
    assert answer.code == 1
    assert "synchronous_commit is off" in answer.out


def test_stored_text_does_not_steer_the_terminal(shell: Shell) -> None:
    evil = f"{RED}\x9b2J\u202egnp"
    id = shell.dead_letter(f"kind{RED}", evil, queue=f"q{RED}")
    shell.sql(
        "update holdfast.inbox set partition_key = %s, errors = jsonb_build_array(jsonb_build_object("
        "'attempt', 1, 'worker', %s::text, 'at', %s::text, 'error', %s::text, 'message', %s::text)), claimed_by = %s",
        evil, evil, evil, evil, evil, evil,
    )  # fmt: skip
    shell.sql("insert into holdfast.workers (id) values (%s)", evil)
    shell.sql("insert into holdfast.queues (name, paused_at) values (%s, now())", evil)
    shell.enqueue(f"kind{RED}", queue=evil)
    for words in (
        ["job", "list"], ["job", "show", str(id)], ["dead", "list"], ["queue", "list"], ["workers", "list"], ["stats"],
        ["job", "cancel", str(id), "--yes"], ["dead", "revive", str(id)], ["health"],
    ):  # fmt: skip
        for flags in ([], ["--json"]):
            answer = shell(*words, *flags)
            assert "Traceback" not in answer.all
            assert not [c for c in answer.all if not c.isprintable() and c != "\n"], (words, flags)


def test_the_hottest_keys(shell: Shell) -> None:
    assert shell("queue", "keys").out == "no key has more than one live job\n"
    shell.sql("select holdfast.enqueue('greet', key => 'tenant:42', queue => 'mail') from generate_series(1, 3)")
    shell.sql("select holdfast.enqueue('greet', key => 'tenant:7') from generate_series(1, 2)")
    rows = shell("queue", "keys", "--json").json
    assert [(row["queue"], row["key"], row["live"]) for row in rows] == [
        ("mail", "tenant:42", 3),
        ("default", "tenant:7", 2),
    ]
    assert "tenant:7" not in shell("queue", "keys", "mail").out
    assert len(shell("queue", "keys", "--limit", "1", "--json").json) == 1
