"""A drain asked for in the registry, as `holdfast workers drain` does: real workers, and one in an application."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pooler import database_at
from tests.support.waiting import until, wait_until
from tests.support.workers import Fleet, Inbox

from holdfast import Holdfast
from holdfast.db.link import Link
from holdfast.ownership import members

pytestmark = pytest.mark.faults

HEARTBEAT = 2.0
OPTIONS = ["--heartbeat", str(HEARTBEAT)]


def drain(inbox: Inbox, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "workers", "drain", *words, "--yes"],
        check=True, env={**os.environ, "HOLDFAST_DATABASE_URL": inbox.url}, capture_output=True, timeout=60,
    )  # fmt: skip


def test_a_worker_drains_when_the_registry_says_so(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    fleet.inbox.enqueue_many("quick", 200)  # teach the worker to claim ahead
    held = fleet.inbox.enqueue("hold", gate=str(gate))
    behind = fleet.inbox.enqueue_many("effect", 20)
    worker = fleet.start(lease=300, concurrency=1, options=OPTIONS)
    (name,) = fleet.names(worker)
    fleet.wait_seen(held, "started")
    wait_until(lambda: fleet.inbox.count(behind, "processing") > 0)
    drain(fleet.inbox, name)
    fleet.inbox.wait(behind, "pending", seconds=HEARTBEAT + 1)
    (before,) = fleet.inbox.rows("select last_seen_at from holdfast.workers")
    wait_until(lambda: fleet.inbox.rows("select last_seen_at from holdfast.workers")[0] != before)
    assert fleet.inbox.workers() == {name: "draining"}  # through heartbeats, too
    gate.touch()
    assert worker.wait() == 0, worker.log
    assert fleet.inbox.status(held) == "completed"
    assert fleet.inbox.workers() == {name: "dead"}
    rows = fleet.inbox.rows("select attempts, status::text as status from holdfast.inbox")
    assert {(row["attempts"], row["status"]) for row in rows} == {(0, "pending")}


def test_one_of_two_processes_drains_and_is_not_started_again(fleet: Fleet) -> None:
    worker = fleet.start(processes=2, options=["--heartbeat", "0.3"])
    one, other = fleet.names(worker)
    drain(fleet.inbox, one)
    wait_until(lambda: fleet.inbox.workers() == {one: "dead", other: "alive"})
    fleet.inbox.wait(fleet.inbox.enqueue("effect"))
    assert fleet.inbox.workers() == {one: "dead", other: "alive"}
    drain(fleet.inbox, "--all")
    assert worker.wait() == 0, worker.log
    assert set(fleet.inbox.workers().values()) == {"dead"}


async def test_a_worker_in_an_application_obeys_too(fleet: Fleet) -> None:
    app = Holdfast(fleet.inbox.url)
    gate = asyncio.Event()

    @app.task
    async def short() -> None:
        await asyncio.sleep(0.005)

    @app.task
    async def hold() -> None:
        await gate.wait()

    async with app.worker(concurrency=2, heartbeat=0.2, lease=60) as worker:
        held = await hold.enqueue()
        jobs = [job.id for job in await short.enqueue_many([{}] * 3000)]
        await until(lambda: fleet.inbox.count(jobs, "completed") > 100)
        assert await app.drain_workers([worker.name]) == [worker.name]
        # What it had claimed ahead goes back although it has a hand free, and the block has not ended.
        await until(lambda: fleet.inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 1)
        left = fleet.inbox.count(jobs, "pending")
        assert left > 0
        gate.set()
        await until(lambda: fleet.inbox.status(held.id) == "completed")
        await until(lambda: fleet.inbox.one("select metadata -> 'counters' ->> 'running' from holdfast.workers") == "0")
        assert fleet.inbox.workers() == {worker.name: "draining"}
        assert fleet.inbox.count(jobs, "pending") == left
    assert fleet.inbox.workers() == {worker.name: "dead"}
    rows = fleet.inbox.rows("select attempts, status::text as status from holdfast.jobs")
    assert {(row["attempts"], row["status"]) for row in rows} == {(0, "pending"), (1, "completed")}
    await app.close()


async def test_one_that_has_left_is_not_called_back_by_a_late_heartbeat(fleet: Fleet) -> None:
    link = Link(database_at(fleet.inbox.url), "test")
    await members.register(link, "gone", {})
    await members.leave(link, "gone", "draining")
    await members.leave(link, "gone", "dead")
    assert await members.heartbeat(link, {"gone": {}}) == {"gone": "dead"}
    assert fleet.inbox.workers() == {"gone": "dead"}
    await link.close()


async def test_a_draining_worker_that_was_given_up_comes_back_draining(fleet: Fleet) -> None:
    link = Link(database_at(fleet.inbox.url), "test")
    for name in ("asked", "left", "well"):
        await members.register(link, name, {})
    await link.run("ownership", "drain", ["asked"], "ann")
    await members.leave(link, "left", "draining")
    await link.run("housekeeping", "members", 0.0)
    assert set(fleet.inbox.workers().values()) == {"dead"}
    await members.heartbeat(link, {name: {} for name in ("asked", "left", "well")})
    assert fleet.inbox.workers() == {"asked": "draining", "left": "draining", "well": "alive"}
    await link.close()
