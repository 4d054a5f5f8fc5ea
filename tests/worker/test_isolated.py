"""The engine of an isolation process: suspects, one at a time, and nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID

import pytest
from tests.support.stopwatch import taken_between
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.db.link import Link
from holdfast.inbox import guarded
from holdfast.loading import served
from holdfast.ownership import members, shares
from holdfast.worker.claiming import isolated
from holdfast.worker.engine import Engine
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.settings import Suspects, WorkerSettings


@asynccontextmanager
async def engine(hf: Holdfast, suspects: Suspects) -> AsyncIterator[Engine]:
    """As a worker process has one."""
    engine = Engine(served(hf), WorkerSettings(poll_max=0.05), Ledger(), members.new_name(), suspects=suspects)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop(within=0)
        await engine.leave()


def add_suspects(inbox: Inbox, kind: str, count: int) -> list[UUID]:
    """Suspects from the first moment on, so that nobody takes them for ordinary ones."""
    statement = """
        insert into holdfast.inbox (partition_key, partition_bucket, payload, crashes, attempts)
        select 'k', 1, jsonb_build_object('type', %s::text), 1, 1 from generate_series(1, %s)
        returning id
    """
    return [row["id"] for row in inbox.rows(statement, kind, count)]


async def completed(inbox: Inbox, ids: list[UUID], seconds: float = 60) -> None:
    await until(lambda: inbox.count(ids, "completed") == len(ids), seconds)


async def test_it_runs_suspects_one_after_the_other_and_nothing_else(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def nap() -> None:
        await asyncio.sleep(0.05)

    ordinary = [(await nap.enqueue()).id for _ in range(5)]
    suspects = add_suspects(inbox, "nap", 5)
    async with engine(hf, Suspects.ONLY):
        await completed(inbox, suspects)
    assert inbox.count(ordinary, "pending") == 5
    rows = inbox.rows("select claimed_at, finished_at from holdfast.archive order by claimed_at")
    assert all(after["claimed_at"] >= before["finished_at"] for before, after in pairwise(rows))


async def test_one_that_was_alone_for_long_gets_company_and_not_before(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "COMPANY", 1.0)
    monkeypatch.setattr(isolated, "ENGAGED", 0.1)
    started: list[float] = []
    over = asyncio.Event()

    @hf.task
    async def hold() -> None:
        started.append(time.monotonic())
        await over.wait()

    suspects = add_suspects(inbox, "hold", 3)
    async with engine(hf, Suspects.ONLY) as isolation:
        await until(lambda: isolation.ledger.suspects)  # it says that others wait
        await until(lambda: len(started) == 3)
        over.set()
        await completed(inbox, suspects)
        await until(lambda: not isolation.ledger.suspects)
    assert all(after - before > 0.9 for before, after in pairwise(started))


async def test_it_is_over_when_no_suspect_comes_and_not_while_one_runs(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "IDLE", 0.5)
    over: list[datetime] = []
    ended: list[datetime] = []

    @hf.task
    async def nap() -> None:
        await asyncio.sleep(1.5)
        ended.append(datetime.now(UTC))

    add_suspects(inbox, "nap", 1)
    async with engine(hf, Suspects.ONLY) as isolation:
        isolation.on_idle = lambda: over.append(datetime.now(UTC))
        await until(lambda: bool(over))
    idle = taken_between(ended[0], over[0])
    assert idle.elapsed > 0.4 and idle.own < 3, f"it looks every 50 ms whether it is busy: {idle}"


async def test_it_has_no_share_of_what_others_can_take(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def nothing() -> None: ...

    async with engine(hf, Suspects.ONLY) as isolation, engine(hf, Suspects.LEFT) as ordinary:
        assert set(inbox.workers()) == {isolation.name, ordinary.name}
        link = Link(hf._database, "test")
        assert await shares.live(link, ["default"]) == {"default": {ordinary.name}}
        await link.close()


async def test_the_next_of_an_ordered_key_does_not_wait_for_a_patrol(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ordinary workers have passed it, because it waits behind the suspect; and no patrol comes.
    monkeypatch.setattr(guarded, "PATROL_EVERY", 3600.0)
    ran: list[tuple[int, float]] = []

    @hf.task(ordered=True)
    async def step(number: int) -> None:
        ran.append((number, time.monotonic()))
        await asyncio.sleep(0.5)

    first, *rest = [(await step.options(key="k").enqueue(number=number)).id for number in range(3)]
    inbox.rows("update holdfast.inbox set crashes = 1, attempts = 1 where id = %s", first)
    async with engine(hf, Suspects.LEFT) as ordinary:
        await until(lambda: ordinary.ledger.suspects)
        await asyncio.sleep(0.2)
        assert ran == []
        async with engine(hf, Suspects.ONLY):
            await completed(inbox, [first, *rest], 6)
    assert [number for number, _ in ran] == [0, 1, 2]
    names = {row["id"]: row["claimed_by"] for row in inbox.rows("select id, claimed_by from holdfast.archive")}
    assert [names[id] == ordinary.name for id in (first, *rest)] == [False, True, True]
