"""`holdfast worker` from the shell: it runs what was enqueued, drains on SIGTERM, and keeps the password to itself."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.conftest import Shell
from tests.support.waiting import wait_until

APP = """
from holdfast import Fail, Holdfast, Snooze

hf = Holdfast()

@hf.task
async def greet(name: str) -> str:
    return f"Hello {name}"

@hf.task
def broken() -> None:
    raise RuntimeError("as it was made")

@hf.task
def not_wanted() -> Fail:
    return Fail("nobody wants it")
"""


@contextmanager
def working(
    shell: Shell, *flags: str, app: str = "shop:hf", **variables: str
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    (shell.folder / "shop.py").write_text(APP)
    log = shell.folder / "worker.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "worker", app, *flags],
            cwd=shell.folder, env=shell.variables(variables), stdout=stream, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process, log
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                process.kill()


def ended(shell: Shell) -> int:
    return int(shell.sql("select count(*) as n from holdfast.archive")[0]["n"])


def test_it_runs_what_the_command_line_enqueued(shell: Shell) -> None:
    id = shell("enqueue", "greet", '{"name": "Ada"}').out.strip()
    gone = shell("enqueue", "not_wanted").out.strip()
    with working(shell, "--log-level", "DEBUG") as (process, log):
        wait_until(lambda: ended(shell) == 2)
        assert shell("health", "--json").json["live_workers"] == 1
        (worker,) = shell("workers", "list", "--json").json
        assert worker["metadata"]["kinds"] == {"broken": [1, 1], "greet": [1, 1], "not_wanted": [1, 1]}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    shown = shell("job", "show", id, "--json").json
    assert (shown["status"], shown["result"]) == ("completed", "Hello Ada")
    shown = shell("job", "show", gone, "--json").json
    assert shown["next"].startswith("it failed permanently at ") and shown["next"].endswith("(nobody wants it)")
    (worker,) = shell("workers", "list", "--json").json
    assert worker["status"] == "dead"
    counters = worker["metadata"]["counters"]
    assert (counters["completed"], counters["failed"], counters["running"]) == (1, 1, 0), "its last word"
    assert shell.url is not None
    password = urlsplit(shell.url).password
    assert not password or password not in log.read_text()


def test_dead_letters_from_start_to_revival(shell: Shell) -> None:
    shell.sql("update holdfast.settings set value = '0.01' where name = 'backoff_unit'")
    id = shell("enqueue", "broken", "--max-attempts", "2").out.strip()
    with working(shell, "--poll", "50ms") as (_, log):
        wait_until(lambda: bool(shell("dead", "list", "--json").json))
        shown = shell("job", "show", id, "--json").json
        assert [error["message"] for error in shown["errors"]] == ["as it was made"] * 2
        assert f"; fix the cause, then: holdfast dead revive {id}; or discard it: " in shown["next"]
        shown_trace = shell("job", "show", id).out
        assert "    Traceback (most recent call last):" in shown_trace
        assert "    RuntimeError: as it was made" in shown_trace
        assert f"broken {id} is a dead letter after attempt 2: RuntimeError: as it was made" in log.read_text()
        shell("dead", "revive", id)
        wait_until(lambda: len(shell("job", "show", id, "--json").json["errors"]) == 4)


def test_settings_from_variables(shell: Shell) -> None:
    flags = {"HOLDFAST_WORKER_QUEUE": "mail night", "HOLDFAST_WORKER_CONCURRENCY": "3", "HOLDFAST_WORKER_LEASE": "12s"}
    with working(shell, **flags) as (_, log):
        wait_until(lambda: bool(shell.sql("select id from holdfast.workers")))
        (row,) = shell.sql("select metadata from holdfast.workers")
        assert "no task of shop:hf uses queue night" in log.read_text()
    metadata = row["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["queues"], metadata["concurrency"], metadata["lease"]) == (["mail", "night"], 3, 12)


def test_an_unreachable_server_is_waited_for_and_the_password_kept(tmp_path: Path) -> None:
    shell = Shell("postgresql://me:c4nary-S3cret@127.0.0.1:1/shop", tmp_path)
    with working(shell, "--log-level", "DEBUG") as (process, log):
        wait_until(lambda: "cannot reach the server" in log.read_text())
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert "c4nary" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_worker_works_in_the_schema_of_the_environment(bare: Shell) -> None:
    bare.environment["HOLDFAST_SCHEMA"] = "work_b"
    assert bare("migrate").code == 0
    bare("enqueue", "greet", '{"name": "Ada"}')
    with working(bare):
        wait_until(lambda: bare.sql("select kind from work_b.archive") == [{"kind": "greet"}])


def test_a_worker_without_a_schema_says_so(bare: Shell) -> None:
    with working(bare, HOLDFAST_SCHEMA="work_b") as (process, log):
        assert process.wait(30) == 78
    (row,) = bare.sql("select current_database() as name")
    assert (
        f"no schema 'work_b' in the database '{row['name']}'. Run: holdfast migrate --schema work_b" in log.read_text()
    )
    assert "Traceback" not in log.read_text()
