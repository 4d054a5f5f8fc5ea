"""An instance that only waits for the database leaves its place to others; never do more steps run than may."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.support.claims import claim
from tests.support.pooler import database_at, direct
from tests.support.proxy import proxied
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Flow, Holdfast
from holdfast.db.database import Database
from holdfast.errors import LeaseLost
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences, Outage, Subscriber
from holdfast.worker.attempts.permits import Permits
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.engine import Engine
from holdfast.worker.flows.recording import FlowRecords
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.settings import WorkerSettings

HELD = 3
"""More than there are connections for records."""


@asynccontextmanager
async def working(hf: Holdfast, concurrency: int) -> AsyncIterator[Engine]:
    worker = EmbeddedWorker(served(hf), WorkerSettings(concurrency=concurrency, lease=60, housekeeping=60))
    await worker.start()
    try:
        yield worker.engine
    finally:
        await worker.stop()


@asynccontextmanager
async def observing(inbox: Inbox) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(direct(inbox.url))
    try:
        yield connection
    finally:
        await connection.close()


async def test_while_records_of_some_cannot_be_written_another_runs_with_their_permit(
    hf: Holdfast, inbox: Inbox
) -> None:
    ran: list[str] = []
    gate = asyncio.Event()

    async def note(what: str) -> None:
        ran.append(what)
        if what == "held 1":
            await gate.wait()

    @hf.workflow(version=1)
    async def two(flow: Flow, name: str) -> None:
        await flow.step("first", note, f"{name} 1")
        await flow.step("second", note, f"{name} 2")

    for _ in range(HELD):
        await two.start(name="held")
    async with working(hf, concurrency=HELD) as engine, observing(inbox) as others:
        await until(lambda: ran == ["held 1"] * HELD)
        async with others.transaction():  # their records wait for rows that are locked
            await others.execute("select from holdfast.inbox for update")
            gate.set()
            await two.start(name="other")
            await until(lambda: "other 2" in ran)
            assert ran == ["held 1"] * HELD + ["other 1", "other 2"]
        await until(lambda: inbox.one("select count(*) from holdfast.archive") == HELD + 1)
        assert ran[-HELD:] == ["held 2"] * HELD
        assert (engine._permits.lent, engine._permits.free) == (0, HELD)


async def test_during_an_outage_no_permit_is_lent() -> None:
    """Others would begin with it, and their steps could not be recorded either."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = Database(f"postgresql://me@127.0.0.1:{closed.getsockname()[1]}/shop")
    away = asyncio.Event()
    ledger, permits = Ledger(), Permits(3)
    permits.free = 0  # three attempts run
    records = FlowRecords(
        nobody, Occurrences(Noticing(away)), ledger, WorkerSettings(lease=60), "w", asyncio.Event(), permits
    )
    answers: list[asyncio.Future[object]] = [asyncio.ensure_future(records.record(claim(ledger), [], alone=True))]
    assert (permits.lent, permits.free) == (1, 1), "nobody knows yet"
    await away.wait()
    answers.append(asyncio.ensure_future(records.record(claim(ledger), [], alone=True)))
    answers.append(asyncio.ensure_future(records.load(claim(ledger))))
    assert (permits.lent, permits.free) == (1, 1)
    await records.close()
    for answer in answers:
        answer.cancel()


async def test_after_an_outage_that_outlasts_the_leases_permits_are_lent_again(migrated_url: str) -> None:
    """No history is asked for any more, and records can be written: others may begin while they are."""
    away = asyncio.Event()
    ledger, permits = Ledger(), Permits(3)
    async with proxied(direct(migrated_url)) as proxy:
        proxy.refuses = True
        records = FlowRecords(
            database_at(proxy.url), Occurrences(Noticing(away)), ledger, WorkerSettings(lease=60), "w", asyncio.Event(),
            permits,
        )  # fmt: skip
        expires, lasts = claim(ledger), claim(ledger)
        history = asyncio.ensure_future(records.load(expires))
        await away.wait()
        (held,) = (row for row in ledger.held() if row.slot == expires.slot)
        ledger.renewed(held, held.renewed - int(61e9))
        with pytest.raises(LeaseLost):
            await history
        proxy.refuses = False
        with pytest.raises(LeaseLost):  # there is no such row, says the server
            await records.record(lasts, [], alone=True)
        permits.free = 0  # three attempts run
        waiting = asyncio.ensure_future(records.record(lasts, [], alone=True))
        assert (permits.lent, permits.free) == (1, 1)
        with pytest.raises(LeaseLost):
            await waiting
        await records.close()


class Noticing(Subscriber):
    def __init__(self, away: asyncio.Event) -> None:
        self._away = away

    def unavailable(self, outage: Outage) -> None:
        self._away.set()


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_never_do_more_steps_run_than_there_are_permits(hf: Holdfast, inbox: Inbox, concurrency: int) -> None:
    now = most = 0

    async def work(seed: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(seed % 4):
            await asyncio.sleep(0.001)
        now -= 1

    @hf.workflow(version=1)
    async def steps(flow: Flow, seed: int) -> None:
        for n in range(3):
            await flow.step("work", work, seed + n)

    @hf.task
    async def job(seed: int) -> None:
        await work(seed)

    await steps.start_many([{"seed": n} for n in range(60)])
    await job.enqueue_many([{"seed": n} for n in range(60)])
    async with working(hf, concurrency) as engine:
        await until(lambda: inbox.one("select count(*) from holdfast.archive where status = 'completed'") == 120)
        assert most <= concurrency
        assert (engine._permits.lent, engine._permits.free) == (0, concurrency)
        assert len(engine._hand_tasks) > concurrency, "some have begun while others waited"


async def test_every_permit_comes_back_also_from_those_that_are_stopped_while_they_wait() -> None:
    dice, permits = random.Random(7), Permits(3)
    waiting: list[asyncio.Future[int]] = []

    async def attempt() -> None:
        while permits.free <= 0:
            await asyncio.sleep(0)
        permits.free -= 1
        try:
            for _ in range(dice.randrange(4)):
                answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                permits.lend()
                waiting.append(answer)
                await answer
        finally:
            permits.give()

    attempts = [asyncio.create_task(attempt()) for _ in range(300)]
    stopped = 0
    while not all(each.done() for each in attempts) or waiting:
        await asyncio.sleep(0)
        for _ in range(dice.randrange(3)):
            if waiting:
                answer = waiting.pop(dice.randrange(len(waiting)))
                if dice.random() < 0.1:
                    permits.take_back()  # the lease is lost
                    answer.cancel()
                else:
                    permits.resume(answer, 1)
        each = dice.choice(attempts)
        if dice.random() < 0.05 and not each.done():
            stopped += each.cancel()
    assert stopped > 10
    assert (permits.lent, permits.free) == (0, 3)
