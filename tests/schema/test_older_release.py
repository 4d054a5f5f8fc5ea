"""Rolling upgrades: the wheel of this release, on a schema that is one version newer and marked compatible.

The newer release is this one with one more migration, as the next release could have it: a column, a term of jobs, and
a function with another body.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Inbox

from holdfast.schema.migrate import newest

APP = """
from holdfast import Holdfast

hf = Holdfast()


@hf.task(ordered=True)
async def note(n: int) -> int:
    return n


@hf.task
async def free(n: int) -> int:
    return n
"""
PRODUCER = """
import asyncio
from shop import free, hf, note

async def main() -> None:
    await note.options(key="a").enqueue(1)
    await note.options(idempotency_key="i", key="a").enqueue(2)
    await note.options(key="c").enqueue_many([{"n": n} for n in range(3)])
    await free.enqueue_many([{"n": n} for n in range(600)])
    await hf.enqueue_many([note.options(key="e").job(4), note.options(key="b").job(5)])
    await hf.close()

asyncio.run(main())
"""
JOBS = 607
NEXT = """-- What the next release may need.
-- Compatible from {version}
alter table holdfast.inbox add column later text;
alter type holdfast.terms add attribute later text;
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is installed from the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def newer(wheel: Path, tmp_path: Path) -> Path:
    """The next release."""
    site = tmp_path / "newer"
    shutil.copytree(wheel, site)
    number = newest() + 1
    schema = site / "holdfast" / "schema"
    (schema / "migrations" / f"{number:04}_next.sql").write_text(NEXT.format(version=number - 1))
    function = schema / "functions" / "store_job.sql"
    text = function.read_text()
    function.write_text(re.sub(r"\nbegin\n", "\nbegin\n    -- Of the next release.\n", text, count=1))
    return site


def environment(site: Path, tmp_path: Path, url: str) -> dict[str, str]:
    (tmp_path / "shop.py").write_text(APP)
    return {**os.environ, "PYTHONPATH": f"{site}:{tmp_path}", "HOLDFAST_DATABASE_URL": url}


def command(site: Path, tmp_path: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], env=environment(site, tmp_path, url), cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip


@contextmanager
def worker(site: Path, tmp_path: Path, url: str) -> Iterator["subprocess.Popen[bytes]"]:
    log = tmp_path / f"{site.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "worker", "shop:hf", "--poll", "50ms"],
            env=environment(site, tmp_path, url), cwd=tmp_path, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            wait_until(lambda: " started: queues" in log.read_text(), 60)
            yield process
        finally:
            process.terminate()
            process.wait()


def produce(site: Path, tmp_path: Path, url: str) -> None:
    subprocess.run([sys.executable, "-c", PRODUCER], env=environment(site, tmp_path, url), cwd=tmp_path, check=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", ["a worker that runs on", "a worker that starts after it"])
def test_a_worker_and_a_producer_of_this_release_on_the_next_schema(
    wheel: Path, newer: Path, database_url: str, tmp_path: Path, first: str
) -> None:
    inbox = Inbox(database_url)
    assert command(wheel, tmp_path, database_url, "migrate").returncode == 0

    def done() -> int:
        return int(inbox.one("select count(*) from holdfast.archive where status = 'completed'"))

    def migrate() -> None:
        migrated = command(newer, tmp_path, database_url, "migrate")
        assert (migrated.returncode, "next" in migrated.stdout) == (0, True), migrated.stdout + migrated.stderr

    if first == "a worker that starts after it":
        migrate()
    with worker(wheel, tmp_path, database_url):
        if first == "a worker that runs on":
            migrate()
        # An older release that migrates when it starts leaves the newer one's schema and functions alone.
        for site, *arguments in ((wheel, "migrate"), (wheel, "migrate", "--check"), (newer, "migrate", "--check")):
            checked = command(site, tmp_path, database_url, *arguments)
            assert checked.returncode == 0, checked.stdout + checked.stderr
        produce(wheel, tmp_path, database_url)
        wait_until(lambda: done() == JOBS, 60)
    with worker(newer, tmp_path, database_url):  # the rest of the fleet follows
        inbox.rows("delete from holdfast.archive; delete from holdfast.dedupe")
        produce(wheel, tmp_path, database_url)
        wait_until(lambda: done() == JOBS, 60)
    assert inbox.one("select count(*) from holdfast.inbox") == 0
