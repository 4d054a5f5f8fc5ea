"""A worker inside an application: `async with hf.worker():`."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Context, Holdfast, LeaseLost, SchemaError, Unreachable
from holdfast.housekeeping.loop import Housekeeper
from holdfast.loading import served
from holdfast.ownership import members
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.settings import WorkerSettings

FAST: dict[str, Any] = {"concurrency": 4, "lease": 3, "housekeeping": 0.2, "poll": 0.05}


async def ended(inbox: Inbox, *jobs: UUID, status: str = "completed") -> None:
    await until(lambda: inbox.count(jobs, status) == len(jobs))


async def test_it_drains_when_the_block_ends(hf: Holdfast, inbox: Inbox) -> None:
    started = asyncio.Event()

    @hf.task
    async def slow() -> str:
        started.set()
        await asyncio.sleep(0.5)
        return "finished"

    async with hf.worker(**FAST) as worker:
        job = await slow.enqueue()
        await started.wait()
        assert inbox.workers() == {worker.name: "alive"}
    assert inbox.job(job.id)["result"] == "finished"
    assert inbox.workers() == {worker.name: "dead"}


async def test_it_ends_although_a_handler_takes_long_to_give_in(hf: Holdfast, inbox: Inbox) -> None:
    started = asyncio.Event()

    @hf.task
    async def clear_up() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(60)  # longer than a drain waits after it asked

    async with asyncio.timeout(30), hf.worker(**FAST, drain=0.1):
        job = await clear_up.enqueue()
        await started.wait()
    row = inbox.job(job.id)
    assert (row["status"], row["attempts"]) == ("pending", 0)


async def test_a_role_without_rights_is_refused_in_words(migrated_url: str, inbox: Inbox) -> None:
    role = f"stranger_{secrets.token_hex(4)}"
    inbox.rows(f"create role {role} login password 'x'")
    place = urlsplit(migrated_url).netloc.rpartition("@")[2]
    stranger = Holdfast(urlunsplit(urlsplit(migrated_url)._replace(netloc=f"{role}:x@{place}")))

    @stranger.task
    async def greet() -> None: ...

    try:
        attempts: list[Callable[[], Awaitable[Any]]] = [greet.enqueue, stranger.worker().__aenter__, stranger.migrate]
        for attempt in attempts:
            with pytest.raises(ConfigurationError, match="permission denied for schema"):
                await attempt()
    finally:
        await stranger.close()
        inbox.rows(f"drop role {role}")


async def test_a_server_that_is_not_there_is_named() -> None:
    hf = Holdfast("postgresql://me:canary@127.0.0.1:1/shop")
    hf.task(name="greet")(lambda: None)
    attempts: list[Callable[[], Awaitable[Any]]] = [hf.migrate, hf.worker().__aenter__, lambda: hf.pause("mail")]
    for attempt in attempts:
        with pytest.raises(Unreachable, match=r"at postgresql://me:\*\*\*@127.0.0.1:1/shop"):
            await attempt()
    await hf.close()


async def test_what_does_not_finish_in_time_goes_back(hf: Holdfast, inbox: Inbox) -> None:
    started = asyncio.Event()

    @hf.task
    async def endless() -> None:
        started.set()
        await asyncio.sleep(3600)

    async with hf.worker(**FAST, drain=0.1):
        job = await endless.enqueue()
        await started.wait()
    row = inbox.job(job.id)
    assert (row["status"], row["attempts"]) == ("pending", 0)


async def test_leases_are_renewed_from_a_thread(hf: Holdfast, inbox: Inbox) -> None:
    runs: list[str] = []

    @hf.task
    async def long(how: str) -> None:
        runs.append(how)
        if how == "sleeps":
            await asyncio.sleep(5)
        else:
            time.sleep(5)  # noqa: ASYNC251 - blocks the loop for more than two leases

    async with hf.worker(**{**FAST, "lease": 2}):
        jobs = [(await long.enqueue(how=how)).id for how in ("sleeps", "blocks")]
        await ended(inbox, *jobs)
    assert sorted(runs) == ["blocks", "sleeps"]
    assert all(inbox.job(job)["attempts"] == 1 for job in jobs)


async def test_a_handler_learns_that_its_lease_is_lost(hf: Holdfast, inbox: Inbox) -> None:
    told: list[str] = []
    started = asyncio.Event()

    @hf.task
    async def cancelled(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            assert ctx.stopping
            told.append("async")

    @hf.task
    def checks(ctx: Context) -> None:
        assert ctx.wait_stopping(60)
        try:
            ctx.check()
        except LeaseLost:
            told.append("sync")
            raise

    async with hf.worker(**FAST) as worker:
        jobs = [(await cancelled.enqueue()).id, (await checks.enqueue()).id]
        await until(lambda: inbox.count(jobs, "processing") == 2)
        await started.wait()
        inbox.rows(
            "update holdfast.inbox set claimed_by = 'another', lease_generation = 7,"
            " lease_expires_at = now() + '1 hour'"
        )
        await until(lambda: worker.engine.tally.counters.lease_lost == 2)
    assert sorted(told) == ["async", "sync"]
    assert all(inbox.job(job)["lease_generation"] == 7 for job in jobs)


async def test_an_idle_worker_polls_no_faster_than_it_was_told(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Requirement 18.
    @hf.task
    async def nothing() -> None:
        pass

    async with hf.worker(**{**FAST, "poll": 0.2}) as worker:
        claim, looks = worker.engine.claimer.claim, []

        async def counted(limit: int) -> Any:
            looks.append(time.monotonic())
            return await claim(limit)

        monkeypatch.setattr(worker.engine.claimer, "claim", counted)
        await until(lambda: len(looks) >= 30)
    assert looks[29] - looks[19] >= 10 * 0.2 * 0.75


async def test_it_refuses_a_database_without_the_schema(database_url: str) -> None:
    hf = Holdfast(database_url)

    @hf.task
    async def nothing() -> None:
        pass

    with pytest.raises(SchemaError, match="holdfast migrate"):
        async with hf.worker():
            pass


def test_names_of_workers_tell_where_they_run_and_are_never_used_again() -> None:
    # Requirement 19.
    names = {members.new_name() for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f"{socket.gethostname()[:60]}-{os.getpid()}-") for name in names)


async def test_a_heartbeat_under_way_does_not_call_a_worker_back_that_has_left(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def nothing() -> None:
        pass

    for _ in range(5):
        worker = EmbeddedWorker(served(hf), WorkerSettings(lease=1, heartbeat=0.001))
        await worker.start()
        await worker.stop()
    assert set(inbox.workers().values()) == {"dead"}


async def test_many_short_jobs_under_a_sweeping_housekeeper_run_once_each(hf: Holdfast, inbox: Inbox) -> None:
    ran: list[int] = []

    @hf.task
    async def count(n: int) -> None:
        ran.append(n)

    house = Housekeeper(hf._database, 0.01, 0)
    async with hf.worker(**{**FAST, "concurrency": 50, "lease": 5}) as worker:
        await count.enqueue_many([{"n": n} for n in range(3000)])
        sweeping = asyncio.create_task(house.run())
        await until(lambda: worker.engine.tally.counters.completed == 3000)
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
    assert sorted(ran) == list(range(3000))
