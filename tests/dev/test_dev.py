"""`holdfast dev` as a new user meets it: a folder, a file, one command."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from tests.support.waiting import wait_until

PATIENCE = 60.0
APP = """
from holdfast import Holdfast

hf = Holdfast()


@hf.task
async def hello(name: str) -> None:
    print("{word}", name, flush=True)
"""


@dataclass
class Project:
    folder: Path
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write(self, word: str = "hello", more: str = "") -> None:
        (self.folder / "app.py").write_text(APP.replace("{word}", word) + more)

    @property
    def log(self) -> str:
        return (self.folder / f"out-{len(self.runs)}.log").read_text()

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG"))}
        ours.pop("DATABASE_URL", None)
        with (self.folder / f"out-{len(self.runs) + 1}.log").open("wb") as log:
            run = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli", "dev", "app:hf", *more],
                cwd=self.folder, env=ours, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.runs.append(run)
        return run

    def wait(self, words: str, times: int = 1) -> None:
        def there() -> bool:
            assert self.runs[-1].poll() is None, self.log
            return len(re.findall(words, self.log)) >= times

        wait_until(there, PATIENCE)

    @property
    def url(self) -> str:
        found = re.fullmatch(r"export HOLDFAST_DATABASE_URL='(.*)'\n", (self.folder / ".holdfast/env").read_text())
        assert found is not None
        return found[1]

    def enqueue(self, name: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("select holdfast.enqueue('hello', jsonb_build_object('name', %s::text))", [name])

    def processes(self) -> list[int]:
        """Those that work in the folder, Postgres included."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and entry.joinpath("cwd").readlink().is_relative_to(self.folder):
                    found.append(int(entry.name))
        return found


@pytest.fixture
def project() -> Iterator[Project]:
    """A folder that every user can enter: as root, Postgres runs as another one."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-dev-"))
    folder.chmod(0o755)
    made = Project(folder)
    yield made
    for run in made.runs:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    for number in range(1, len(made.runs) + 1):
        print(f"--- run {number}\n{(folder / f'out-{number}.log').read_text()}")
    wait_until(lambda: not made.processes(), PATIENCE)
    shutil.rmtree(folder)


@pytest.mark.timeout(300)
def test_a_first_job(project: Project) -> None:
    project.write()
    run = project.start("--no-dashboard")
    project.wait("holdfast.worker worker .* started")
    project.wait(re.escape("""holdfast enqueue --app app:hf hello '{"name": "…"}'"""))
    project.enqueue("ann")
    project.wait("hello ann")

    project.write("hi")
    project.wait("app.py changed")
    project.wait("holdfast.worker worker .* started", 2)
    project.enqueue("bob")
    project.wait("hi bob")

    project.write("hi", "def broken(:\n")
    project.wait("SyntaxError")
    project.wait(r"The worker still runs the code of \d\d:\d\d:\d\d")
    project.enqueue("cyd")
    project.wait("hi cyd")
    project.write("good day")
    project.wait("holdfast.worker worker .* started", 3)
    project.enqueue("dan")
    project.wait("good day dan")

    second = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "dev", "app:hf"], cwd=project.folder, capture_output=True, text=True,
        timeout=60, env={name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
    )  # fmt: skip
    assert second.returncode == 1
    assert f"is in use by process {run.pid}" in second.stderr

    os.kill(run.pid, signal.SIGINT)
    assert run.wait(PATIENCE) == 0
    assert project.processes() == []
    assert "stopped. The data stays in .holdfast." in project.log
    address = project.url

    project.start("--no-dashboard")
    project.wait("holdfast.worker worker .* started")
    assert project.url == address
    with psycopg.connect(project.url) as connection:
        rows = connection.execute("select payload ->> 'name' from holdfast.archive order by id").fetchall()
    assert [name for (name,) in rows] == ["ann", "bob", "cyd", "dan"]


@pytest.mark.timeout(300)
def test_a_broken_start_and_a_violent_end(project: Project) -> None:
    project.write(more="import nowhere\n")
    run = project.start("--port", "18321")
    project.wait("No module named 'nowhere'")
    project.wait("Worker     none runs, because of this error")
    project.write()
    project.wait("holdfast.worker worker .* started")
    address = re.search(r"Dashboard  (http://127\.0\.0\.1:\d+/)", project.log)
    assert address is not None, project.log
    wait_until(lambda: answers(address[1]), PATIENCE)
    run.kill()
    run.wait()
    wait_until(lambda: not project.processes(), PATIENCE)  # the kernel ends the worker, the reaper Postgres
    again = project.start("--no-dashboard")
    project.wait("holdfast.worker worker .* started")
    again.send_signal(signal.SIGTERM)
    assert again.wait(PATIENCE) == 0


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=30) as response:
            return b"<title>Holdfast</title>" in response.read()
    except OSError:
        return False


def test_what_is_not_an_application(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "dev", "app"], cwd=project.folder, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "expected module:attribute, such as shop.jobs:hf, got 'app'" in done.stderr
    assert list(project.folder.iterdir()) == []


def test_a_server_that_is_not_there(project: Project) -> None:
    project.write()
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "dev", "app:hf"], cwd=project.folder, capture_output=True, text=True,
        timeout=60, env={**os.environ, "HOLDFAST_DATABASE_URL": "postgresql://nobody:secret@127.0.0.1:1/none"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "cannot reach the server at postgresql://nobody:***@127.0.0.1:1/none" in done.stderr
    assert "HOLDFAST_DATABASE_URL is set; unset it to get an embedded Postgres" in done.stderr
