"""Work that waits, fails or is held, with real workers."""

import asyncio
import os
import signal

import pytest
from tests.doctor.real.conftest import Clinic
from tests.support.causes import cause
from tests.support.inbox import session
from tests.support.pooler import direct
from tests.support.waiting import until
from tests.support.workers import Fleet

from holdfast import Holdfast
from holdfast.ownership import shares
from holdfast.worker import engine


@cause("unclaimable: warn: no live worker of queue", "unclaimable: fail: no live worker of queue")
async def test_nobody_can_run_what_is_due(clinic: Clinic) -> None:
    @clinic.hf.task(queue="mail")
    async def send() -> None: ...

    await send.enqueue()
    found = await clinic.find("unclaimable")
    assert (found.level, "no live worker of queue mail can run send version 1: 1 job waits," in found.sentence) == (
        "warn",
        True,
    )
    await clinic.later(601)
    assert (await clinic.find("unclaimable")).level == "fail"
    async with clinic.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05):
        await clinic.until("unclaimable", "ok")


@cause("paused: warn: is paused for")
async def test_a_queue_is_paused_and_forgotten(clinic: Clinic) -> None:
    @clinic.hf.task(queue="mail")
    async def send() -> None: ...

    await clinic.hf.pause("mail")
    await clinic.later(601)
    assert (await clinic.find("paused")).level == "ok", "nothing waits"
    await send.enqueue()
    found = await clinic.find("paused")
    assert (found.level, found.remedy) == ("warn", "holdfast queue resume mail")
    await clinic.hf.resume("mail")
    assert (await clinic.find("paused")).level == "ok"


@cause("backlog: warn: the oldest due job of queue", "backlog: fail: the oldest due job of queue")
async def test_all_hands_are_busy_for_long(clinic: Clinic) -> None:
    gate = asyncio.Event()

    @clinic.hf.task
    async def slow() -> None:
        await gate.wait()

    async with clinic.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05, concurrency=2):
        for _ in range(5):
            await slow.enqueue()
        await clinic.later(11)
        found = await clinic.until("backlog", "warn", "2 of 2 hands of its workers are busy")
        assert "--concurrency" in (found.remedy or "")
        await clinic.later(600)
        await clinic.until("backlog", "fail")
        gate.set()
        await clinic.until("backlog", "ok")


@cause("hot_keys: warn: share the ordered key", "hot_keys: fail: share the ordered key")
async def test_many_jobs_share_a_key(clinic: Clinic) -> None:
    @clinic.hf.task(ordered=True, key=lambda n: "order:1")
    async def ship(n: int) -> None: ...

    await ship.enqueue_many([{"n": n} for n in range(101)])
    found = await clinic.find("hot_keys")
    assert (found.level, found.figure) == ("warn", 101.0)
    assert "101 jobs of queue default share the ordered key 'order:1'" in found.sentence
    await clinic.later(601)
    assert (await clinic.find("hot_keys")).level == "fail"


@cause("dead_letters: warn: became dead letters within a day")
async def test_jobs_ran_out_of_attempts(clinic: Clinic) -> None:
    @clinic.hf.task(max_attempts=1)
    async def charge() -> None:
        raise ValueError("the card was refused")

    async with clinic.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05):
        await charge.enqueue()
        found = await clinic.until("dead_letters", "warn")
    assert "the last one: charge: ValueError: the card was refused" in found.sentence
    await clinic.later(86400)
    assert (await clinic.find("dead_letters")).level == "ok", "that was yesterday"


@cause(
    "orphans: warn: held by",
    "leases: warn: not been swept",
    "leases: fail: not been swept",
    "leases: fail: the sweep fails",
    "ring: warn: was last seen",
)
async def test_a_host_dies(clinic: Clinic, fleet: Fleet) -> None:
    @clinic.hf.task
    async def hold(gate: str) -> None: ...

    await clinic.hf.set_queue("default", owned=True)
    worker = fleet.start(lease=120, options=("--heartbeat", "0.2"))
    (name,) = fleet.names(worker)
    ids = [clinic.inbox.enqueue("hold", gate="stays shut") for _ in range(2)]
    await until(lambda: clinic.inbox.count(ids, "processing") == 2)
    assert (await clinic.find("orphans")).level == "ok"
    os.killpg(worker.pid, signal.SIGKILL)
    await clinic.later(21)
    found = await clinic.find("ring")
    assert (found.level, f"worker {name} of queue default was last seen 2" in found.sentence) == ("warn", True)
    await clinic.later(11)
    found = await clinic.find("orphans")
    assert (found.level, found.figure) == ("warn", 2.0)
    assert f"2 jobs held by 1 worker that is gone ({name}, silent for " in found.sentence
    assert (await clinic.find("ring")).level == "ok", "it owns nothing any more"
    await clinic.later(103)
    found = await clinic.find("leases")
    assert (found.level, "the leases of 2 jobs expired, the oldest " in found.sentence) == ("warn", True)
    await clinic.later(60)
    assert (await clinic.find("leases")).level == "fail"
    async with session(direct(clinic.inbox.url)) as operator:
        await operator.connection.execute("alter function holdfast.fail_attempts rename to lost")
        async with clinic.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05, lease=0.6):
            await clinic.until("leases", "fail", "the sweep fails: UndefinedFunctionError")
            await operator.connection.execute("alter function holdfast.lost rename to fail_attempts")
            await clinic.until("leases", "ok")


@cause("ring: fail: other members than the registry has")
async def test_a_worker_does_not_see_who_has_come(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real worker whose view of the registry never gets newer: in this test, it looks only once in an hour."""
    other = Holdfast(clinic.inbox.url)
    for app in (clinic.hf, other):
        app.task(name="job")(nothing)
    await clinic.hf.set_queue("default", owned=True)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(shares.Shares.__init__, "__defaults__", (3600.0,))
            old = other.worker(heartbeat=0.1, housekeeping=60, poll=0.05)
            await old.__aenter__()
        try:
            seen = "select id from holdfast.workers where metadata -> 'counters' ->> 'ring' <> '0'"
            await until(lambda: len(clinic.inbox.rows(seen)) == 1)
            async with clinic.hf.worker(heartbeat=0.1, housekeeping=60, poll=0.05):
                await until(lambda: len(clinic.inbox.rows(seen)) == 2)
                assert (await clinic.find("ring")).level == "ok", "somebody has come just now"
                await clinic.later(50)
                found = await clinic.until("ring", "fail")
                assert "1 worker of queue default sees other members than the registry has" in found.sentence
        finally:
            await old.__aexit__(None, None, None)
    finally:
        await other.close()


def nothing() -> None:
    pass


@cause("versions: warn: several releases are in use", "versions: fail: a live worker does not report its release")
async def test_workers_of_other_releases(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second release yet, so these are workers of this one that register under another number, and under
    none. A wheel of another release is built in tests/schema/test_older_release.py, which takes too long for this."""
    clinic.hf.task(name="job")(nothing)
    for release, level in (("0.0.9", "warn"), ("", "fail")):
        monkeypatch.setattr(engine, "__version__", release)
        async with clinic.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05):
            found = await clinic.find("versions")
            assert found.level == level
            assert "0.0.9, 0.1.0 (this program: 0.1.0)" in found.sentence or level == "fail"
    assert (await clinic.find("versions")).level == "ok"
