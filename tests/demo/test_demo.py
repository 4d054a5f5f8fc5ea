"""The demo as its audience runs it."""

import json
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
import pytest
from tests.demo.running import PROGRAM, left_behind, of_session, start, wait_for_words
from tests.support.pooler import direct
from tests.support.processes import processes_mentioning
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(180)]

NUMBERS = [
    "enqueued", "completed", "dead_letter", "lost", "duplicate_effects", "recovered_after_kill",
    "rolled_back_jobs_found", "jobs_per_second",
]  # fmt: skip


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder in which to see what is left behind, and that other accounts may enter."""
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def check(numbers: Mapping[str, float]) -> None:
    assert list(numbers) == NUMBERS
    assert numbers["lost"] == numbers["duplicate_effects"] == numbers["rolled_back_jobs_found"] == 0
    assert numbers["recovered_after_kill"] > 0
    assert numbers["dead_letter"] > 0
    assert numbers["enqueued"] == numbers["completed"] + numbers["dead_letter"]
    assert numbers["jobs_per_second"] > 0


def test_json_is_one_object_of_numbers(temporary: Path) -> None:
    process = start(temporary, "--seconds", "8", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.count("\n") == 1
    check(json.loads(out))
    assert left_behind(process, temporary) == []


def test_on_a_server_of_ones_own_the_schema_goes(temporary: Path, database_url: str) -> None:
    process = start(temporary, "--seconds", "4", HOLDFAST_DATABASE_URL=database_url)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), out
    assert "All guarantees held." in out
    assert "\x1b" not in out
    assert "connecting to your server" in out and "starting PostgreSQL" not in out
    with psycopg.connect(direct(database_url)) as connection:
        schemas = connection.execute("select nspname from pg_namespace where nspname like 'holdfast%'").fetchall()
    assert schemas == []


@pytest.mark.parametrize("moment", ["starting PostgreSQL", "starting three workers", "completed"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_stopped_at_any_moment_nothing_stays(temporary: Path, moment: str, number: signal.Signals) -> None:
    with start(temporary, "--seconds", "30") as process:
        wait_for_words(process, moment)
        process.send_signal(number)
        _, err = process.communicate()
    assert (process.returncode, err) == (128 + number, "Stopped. Nothing was left behind.\n")
    assert left_behind(process, temporary) == []


def test_killed_itself_its_processes_go_too(temporary: Path) -> None:
    with start(temporary, "--seconds", "30") as process:
        wait_for_words(process, "completed")
        process.kill()
    wait_until(lambda: not of_session(process.pid) and not processes_mentioning(temporary))


def test_a_server_that_is_not_there_is_said_in_words(temporary: Path) -> None:
    process = start(temporary, HOLDFAST_DATABASE_URL="postgresql://nobody:secret@127.0.0.1:1/none")
    _, err = process.communicate()
    assert process.returncode == 1
    assert "cannot reach the server at postgresql://" in err
    assert "Traceback" not in err and "secret" not in err
    assert left_behind(process, temporary) == []


WITHOUT_UVICORN = ("-c", "import sys; sys.modules['uvicorn'] = None; from holdfast.cli import main; main()")


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    [
        (PROGRAM, ["--no-dashboard"], []),
        (WITHOUT_UVICORN, [], ["dashboard not installed; for one: pip install 'holdfast[dashboard]'"]),
    ],
    ids=["not wanted", "not installed"],
)
def test_without_a_dashboard(temporary: Path, program: Sequence[str], arguments: list[str], said: list[str]) -> None:
    with start(temporary, *arguments, program=program) as process:
        before = wait_for_words(process, "completed")
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert [line.removeprefix("Holdfast demo: ") for line in before if "dashboard" in line] == said
    assert left_behind(process, temporary) == []
