"""`holdfast measure` on a real database: what it says, and what it leaves behind, which is nothing."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
from tests.cli.conftest import Answer, Shell
from tests.support.databases import Server
from tests.support.pooler import database_at, direct, wants_pooler
from tests.support.processes import processes_mentioning
from tests.support.proxy import proxied
from tests.support.waiting import wait_until

from holdfast.measure import server
from holdfast.measure.place import Place

pytestmark = pytest.mark.timeout(180)

BRIEF = ("measure", "--seconds", "5")
DELAY = 0.015
"""Seconds each way: more than any disk here takes for a commit, however busy."""


def schemas(shell: Shell) -> list[str]:
    return [
        row["nspname"]
        for row in shell.sql(r"select nspname from pg_namespace where nspname like 'holdfast\_measure\_%%'")
    ]


def set_for_database(shell: Shell, setting: str) -> None:
    shell.sql(f"do $$ begin execute format('alter database %I set {setting}', current_database()); end $$")


def begin(shell: Shell, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *(words or BRIEF)],
        cwd=shell.folder, env=shell.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until_says(process: subprocess.Popen[str], words: str) -> str:
    """Everything up to the line with these words on standard error."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(f"never said {words!r}:\n{said}")


async def answer(shell: Shell, *words: str) -> Answer:
    """As `shell(…)`, while this loop goes on."""
    return await asyncio.to_thread(shell, *words)


def test_a_run_says_what_it_found_and_leaves_nothing_behind(shell: Shell) -> None:
    job = shell.enqueue()
    found = shell(*BRIEF, "--json")
    told = found.json
    figures, diagnosis = told["measurements"], told["diagnosis"]
    for name in ("round_trip", "commit", "enqueue", "pickup"):
        assert 0 < figures[name]["p50"] <= figures[name]["p99"], name
    assert figures["bulk_rate"] > 0
    assert figures["drain"]["jobs"] >= 1000
    assert 0 < figures["drain"]["worker_cpu"] < 1.5
    assert figures["drain"]["sessions"]["looks"] > 0
    shares = [figures["drain"]["sessions"][name] for name in ("cpu", "commit", "disk", "lock", "idle")]
    assert sum(shares) == pytest.approx(1.0)
    assert figures["server"]["settings"]["fsync"] == "on"
    assert figures["server"]["settings"]["synchronous_commit"] == "on"
    assert figures["server"]["pooler"] is wants_pooler()
    assert figures["wal_megabytes"] > 0
    assert figures["installation"]["due"] == 1
    assert diagnosis["bottleneck"] in ("network", "commit", "client_cpu", "server_cpu", "disk", "lock", "horizon")
    assert diagnosis["setting"]
    assert told["leftovers"] == []
    assert [line for line in found.err.splitlines() if re.search(r"measure: [1-6]/6 ", line)], found.err
    assert schemas(shell) == []
    assert [row["id"] for row in shell.sql("select id from holdfast.inbox")] == [job]


@pytest.mark.slow
def test_a_run_without_an_installation_in_plain_words(bare: Shell) -> None:
    found = bare(*BRIEF)
    assert found.code == 0, found.all
    for words in ("round trip", "commit of one row", "pick-up", "drain", "Bottleneck", "Change"):
        assert words in found.out
    assert schemas(bare) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "2/6"), (signal.SIGINT, "6/6"), (signal.SIGTERM, "4/6"), (signal.SIGHUP, "5/6")],
    ids=["ctrl-c early", "ctrl-c late", "sigterm", "sighup"],
)
def test_a_signal_ends_it_and_the_schema_is_gone(bare: Shell, number: signal.Signals, moment: str) -> None:
    process = begin(bare, "measure", "--seconds", "20")
    (schema,) = set(re.findall(r"holdfast_measure_\w+", until_says(process, f"measure: {moment}")))
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert f"The schema {schema} was dropped" in said
    assert "Traceback" not in said
    assert schemas(bare) == []
    assert workers_of(process, bare) == []


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_stop_the_clearing_away(bare: Shell) -> None:
    process = begin(bare, "measure", "--seconds", "60")
    until_says(process, "measure: 2/6")
    process.send_signal(signal.SIGINT)
    until_says(process, "cleaning up")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert schemas(bare) == []


@pytest.mark.slow
def test_when_its_worker_dies_it_says_so_and_the_schema_is_gone(bare: Shell) -> None:
    process = begin(bare, "measure", "--seconds", "60")
    until_says(process, "measure: 4/6")
    os.kill(worker_of(process, bare), signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert "holdfast: The worker ended with code -9" in said
    assert "Traceback" not in said
    assert schemas(bare) == []


@pytest.mark.slow
def test_what_a_killed_run_leaves_behind_is_named_by_the_next(bare: Shell) -> None:
    process = begin(bare, "measure", "--seconds", "20")
    until_says(process, "measure: 4/6")
    (schema,) = schemas(bare)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: workers_of(process, bare) == [])
    found = bare(*BRIEF, "--json")
    assert found.json["leftovers"] == [schema]
    assert f"drop schema {schema} cascade" in found.err
    assert schemas(bare) == [schema], "it is named, not dropped: it might be anybody's"


def workers_of(process: subprocess.Popen[str], shell: Shell) -> list[int]:
    """Worker processes that this run started and that still exist; other tests have some at the same time."""
    found = [pid for pid, words in processes_mentioning("holdfast.measure.tasks:hf")]
    return [pid for pid in found if parent(pid) in (process.pid, 1) and on_database_of(pid, shell)]


def on_database_of(pid: int, shell: Shell) -> bool:
    environment = Path(f"/proc/{pid}/environ")
    try:
        return (shell.url or "").encode() in environment.read_bytes()
    except OSError:  # it has ended; or there are no such files here
        return not Path("/proc/self/environ").exists()


def worker_of(process: subprocess.Popen[str], shell: Shell) -> int:
    """The one worker of this run, as soon as it is there."""
    found: list[int] = []

    def alone() -> bool:
        found[:] = workers_of(process, shell)
        return len(found) == 1

    wait_until(alone)
    return found[0]


def parent(pid: int) -> int:
    done = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(done.stdout.strip() or 0)


async def test_a_run_that_is_under_way_is_no_left_over(database_url: str) -> None:
    first, second = (Place.beside(database_at(database_url)) for _ in range(2))
    try:
        await first.make()
        await second.make()
        assert second.leftovers == []
    finally:
        await first.remove()
        await second.remove()


def test_a_role_that_may_not_create_schemas_is_told_so(bare: Shell, postgres: Server) -> None:
    name = bare.url.rpartition("/")[2] if bare.url else ""
    bare.sql("create role measure_guest login password 'guest'")
    try:
        assert bare.url is not None
        guest = replace(bare, url=re.sub(r"//[^@]*@", "//measure_guest:guest@", bare.url))
        found = guest(*BRIEF)
        assert found.code == 1, found.all
        assert "the role measure_guest may not create schemas" in found.err
        assert f'grant create on database "{name}" to "measure_guest"' in found.err
        assert schemas(bare) == []
        bare.sql(f'grant create on database "{name}" to measure_guest')
        assert guest(*BRIEF, "--json").json["diagnosis"]["bottleneck"]
    finally:
        bare.sql("drop owned by measure_guest; drop role measure_guest")


@pytest.mark.slow
@pytest.mark.direct
async def test_a_long_way_is_named(bare: Shell) -> None:
    assert bare.url is not None
    async with proxied(bare.url) as proxy:
        proxy.delay = DELAY
        told = (await answer(replace(bare, url=proxy.url), *BRIEF, "--json")).json
    assert told["measurements"]["round_trip"]["p50"] >= 2000 * DELAY
    assert told["diagnosis"]["bottleneck"] == "network"
    assert not told["measurements"]["server"]["pooler"], "it only passes bytes"
    assert schemas(bare) == []


@pytest.mark.slow
@pytest.mark.direct
def test_slow_commits_are_named_with_the_setting_that_makes_them_slow(bare: Shell) -> None:
    set_for_database(bare, "commit_delay = 30000")
    set_for_database(bare, "commit_siblings = 0")
    told = bare(*BRIEF, "--json").json
    assert told["measurements"]["commit"]["p50"] >= 30
    assert (told["diagnosis"]["bottleneck"], told["diagnosis"]["setting"]) == ("commit", "commit_delay")


@pytest.mark.direct
async def test_who_holds_the_horizon_is_named(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OLD", 0.0)
    place = Place.beside(database_at(database_url))
    holder = await asyncpg.connect(direct(database_url), server_settings={"application_name": "the report"})
    try:
        await place.make()
        await holder.execute("begin isolation level repeatable read")
        await holder.fetchval("select count(*) from pg_class")
        (found,) = (await server.look(place)).holders
        assert (found.kind, found.name) == ("session", str(holder.get_server_pid()))
        assert "the report, idle in transaction" in found.what
        await holder.execute("rollback")
        assert list((await server.look(place)).holders) == [], "the run's own transaction holds nothing"
    finally:
        await holder.close()
        await place.remove()


async def test_the_installation_is_looked_at(shell: Shell) -> None:
    assert shell.url is not None
    database = database_at(shell.url)
    shell.sql(
        """insert into holdfast.workers (id, metadata) values
        ('w1', '{"concurrency": 20, "counters": {"running": 20, "completed": 100, "retried": 7}}'),
        ('w2', '{"concurrency": 20, "counters": {"running": 10, "completed": 0}}'),
        ('new', '{}')"""
    )
    shell.sql("insert into holdfast.workers (id, last_seen_at) values ('gone', now() - interval '1 hour')")
    shell.enqueue()
    shell.sql("update holdfast.inbox set available_at = now() - interval '1 minute'")
    shell.enqueue(queue="paused")
    shell.sql("insert into holdfast.queues (name, paused_at) values ('paused', now())")
    before = await server.installation_before(database)
    shell.sql(
        "update holdfast.workers set metadata = jsonb_set(metadata, '{counters,completed}', '300') where id = 'w1'"
    )
    found = await server.installation(database, before, 10.0)
    assert found is not None
    assert (found.due, found.live_workers, found.busy, found.rate) == (1, 3, 0.75, 20.0)
    assert 60 <= found.claim_age < 120


def test_a_server_that_forgets_commits_is_refused(bare: Shell) -> None:
    bare.sql("do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$")
    found = bare(*BRIEF)
    assert found.code == 1
    assert "synchronous_commit is off" in found.err
    assert schemas(bare) == []
