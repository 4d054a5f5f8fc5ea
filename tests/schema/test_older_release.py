"""Rolling upgrades: the wheel of this release, on a schema that is one version newer and marked compatible.

The newer release is this one with one more migration, as the next release could have it: columns, a term of jobs, and
a function with another body. What runs on it are jobs, a workflow that waits for a child and a signal, and an event.
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
from holdfast import Flow, Holdfast
from holdfast.transports import Delivered

hf = Holdfast(source="shop")


class Bus:
    batch, parallel, shown = 100, 1, "the bus"

    async def open(self): ...
    async def close(self): ...
    async def send(self, batch, settle):
        for message in batch:
            settle(message, Delivered(reference=message.key))


hf.relay("order.*", to=Bus(), name="bus", ordered=True)


@hf.task(ordered=True)
async def note(n: int) -> int:
    return n


@hf.task
async def free(n: int) -> int:
    return n


@hf.workflow
async def checkout(flow: Flow, order_id: int) -> list:
    charged = await flow.step("charge", charge, order_id)
    counted = await flow.child("free", free, order_id)
    return [charged, counted, await flow.wait("paid")]


async def charge(order_id: int) -> str:
    return f"charged {order_id}"
"""
PRODUCER = """
import asyncio
from shop import checkout, free, hf, note

async def main() -> None:
    checkout_7 = await checkout.options(id="checkout:7").start(7)
    await note.options(key="a").enqueue(1)
    await note.options(idempotency_key="i", key="a").enqueue(2)
    await note.options(key="c").enqueue_many([{"n": n} for n in range(3)])
    await free.enqueue_many([{"n": n} for n in range(600)])
    await hf.enqueue_many([note.options(key="e").job(4), note.options(key="b").job(5)])
    await hf.publish("order.paid", {"order_id": 7}, key="order:7")
    async with asyncio.timeout(60):
        while "signal:paid" not in (await hf.instance("checkout:7")).waits:
            await asyncio.sleep(0.02)
    await hf.signal("checkout:7", "paid", "by card")
    assert await checkout_7.result(timeout="60s") == ["charged 7", 7, "by card"]
    await hf.close()

asyncio.run(main())
"""
JOBS = 607 + 3
"""With the instance, its child, and the delivery."""
NEXT = """-- What the next release may need.
-- Compatible from {version}
alter type holdfast.terms add attribute later text;
"""
GROWS = ("inbox", "archive", "steps", "signals", "instances", "events", "routes", "kinds", "workers")
"""Tables that have one more column then."""


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
    columns = "".join(f"alter table holdfast.{table} add column later text;\n" for table in GROWS)
    (schema / "migrations" / f"{number:04}_next.sql").write_text(NEXT.format(version=number - 1) + columns)
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
