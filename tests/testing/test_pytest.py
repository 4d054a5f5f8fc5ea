"""The fixtures in real runs of pytest: the example, other plugins, root and ordinary users."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from tests.support.databases import Server
from tests.support.pages import ROOT
from tests.support.pooler import direct

pytestmark = pytest.mark.timeout(300)  # each starts Python, and perhaps a server

EXAMPLE = ROOT / "examples" / "testing"
LEFT_OUT = ("HOLDFAST_", "PYTEST_", "COV_")


UNPRIVILEGED = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]  # fmt: skip
"""As another user, who may read everything: Python and its packages may be in root's home."""


def run(folder: Path, *arguments: str, server: str | None = None, prefix: Sequence[str] = ()) -> str:
    """What pytest says in this folder; with warnings as errors."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    if server is not None:
        environment["HOLDFAST_TEST_DATABASE_URL"] = server
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    scope = [] if "no:asyncio" in arguments else ["-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *scope, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=290,
    )  # fmt: skip
    return done.stdout + done.stderr


def may_become_another_user() -> bool:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    return subprocess.run([*UNPRIVILEGED, sys.executable, "-c", ""], capture_output=True, timeout=60).returncode == 0


@pytest.fixture
def project() -> Iterator[Path]:
    """The example, where every user can read it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-test-project-") as folder:
        Path(folder).chmod(0o755)
        project = Path(folder) / "project"
        shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
        yield project


def test_the_example_starts_its_own_server(project: Path) -> None:
    said = run(project, "-q")
    assert "7 passed" in said, said


def test_the_example_on_a_server_that_runs(project: Path, postgres: Server) -> None:
    before = databases(postgres)
    said = run(project, "-q", "-n", "2", server=direct(postgres.url))
    assert "7 passed" in said, said
    assert databases(postgres) <= before, "it leaves none"


def databases(server: Server) -> set[str]:
    with psycopg.connect(direct(server.url)) as connection:
        rows = connection.execute("select datname from pg_database where datname like 'holdfast_test_%'").fetchall()
    return {row[0] for row in rows}


# Left out where it cannot be shown, not skipped: the full run allows no skips.
if may_become_another_user():

    def test_as_an_ordinary_user(project: Path) -> None:
        said = run(project, "-q", prefix=UNPRIVILEGED)
        assert "7 passed" in said, said


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


CONFTEST = 'pytest_plugins = ["holdfast.testing.pytest"]\n'


def test_fixtures(tmp_path: Path, postgres: Server) -> None:
    tests = """
import asyncio
import pytest
from holdfast import Holdfast
from holdfast.testing import clean_sync, drain_sync, frozen_clock, use_database

hf = Holdfast()

@hf.task
async def job() -> None: ...

@pytest.fixture(scope="session")
def holdfast_schema():
    return "jobs"

def test_own_schema(holdfast_url, holdfast_schema):
    other = Holdfast(holdfast_url, schema=holdfast_schema)
    task = other.task(name="a")(lambda: None)
    task.enqueue_sync()
    assert len(drain_sync(other)) == 1
    task.enqueue_sync()
    frozen_clock(other).__enter__()
    other.close_sync()

def test_what_others_left_is_gone(holdfast_clean, holdfast_schema):
    other = Holdfast(holdfast_clean, schema=holdfast_schema)
    task = other.task(name="a")(lambda: None)
    assert len(drain_sync(other)) == 0
    task.enqueue_sync()
    assert len(drain_sync(other)) == 1
    other.close_sync()

seen = []

@pytest.mark.parametrize("turn", [1, 2])
def test_a_database_each(turn, holdfast_new_url, holdfast_url):
    seen.append(holdfast_new_url)
    assert len(set(seen)) == turn
    assert holdfast_url not in seen
"""
    said = run(write(tmp_path, conftest=CONFTEST, test_it=tests), "-q", server=direct(postgres.url))
    assert "4 passed" in said, said


def test_without_a_plugin_for_async_tests(tmp_path: Path, postgres: Server) -> None:
    tests = """
import asyncio
from holdfast import Holdfast
from holdfast.testing import drain, use_database

hf = Holdfast()

@hf.task
async def job() -> int:
    return 5

def test_it(holdfast_clean):
    async def body():
        async with use_database(hf, holdfast_clean):
            await job.enqueue()
            assert [ran.result for ran in await drain(hf)] == [5]
    asyncio.run(body())
"""
    said = run(write(tmp_path, conftest=CONFTEST, test_it=tests), "-q", "-p", "no:asyncio", server=direct(postgres.url))
    assert "1 passed" in said, said


def test_nothing_is_loaded_unless_it_is_asked_for(tmp_path: Path) -> None:
    tests = """
import sys

def test_it():
    assert "holdfast" not in sys.modules
"""
    said = run(write(tmp_path, test_it=tests), "-q")
    assert "1 passed" in said, said


def test_without_pytest(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pytest'] = None; import holdfast.testing; assert 'sqlalchemy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_server_that_cannot_be_started_says_what_to_do(tmp_path: Path) -> None:
    tests = """
def test_it(holdfast_url): ...
"""
    conftest = (
        CONFTEST
        + """
import pytest
from holdfast.embedded import EmbeddedPostgres, EmbeddedPostgresError

def refuse(self):
    raise EmbeddedPostgresError("no binaries")

EmbeddedPostgres.start = refuse
"""
    )
    said = run(write(tmp_path, conftest=conftest, test_it=tests), "-q")
    assert "set HOLDFAST_TEST_DATABASE_URL; its role must be allowed to create databases" in said
