"""What a keeper recalls is not started, also when the answer to its claim comes after that; and others are woken."""

import asyncio
from typing import Any

import pytest
from tests.support.inbox import Session
from tests.support.pooler import database_at
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.db.database import Database
from holdfast.errors import Unreachable
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases import keeper
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.keeper import Keeper, Kept
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.settings import WorkerSettings


async def test_rows_that_were_recalled_before_their_claim_was_answered_do_not_start(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    @hf.task
    async def t(n: int) -> None:
        ran.append(n)

    worker = EmbeddedWorker(served(hf), WorkerSettings(lease=60, housekeeping=60))
    claim, database = worker.engine.claimer.claim, database_at(inbox.url)
    recalled = 0

    async def and_the_loop_stands_still(limit: int) -> Any:
        nonlocal recalled
        batch = await claim(limit)
        if batch.claims and not recalled:
            recalled = len(batch.claims)
            worker.engine.ledger.recall()
            session = await database.connect("keeper")
            await session.fetch(database.sql("inbox", "hand_back_worker"), worker.name)
            await session.close()
        return batch

    monkeypatch.setattr(worker.engine.claimer, "claim", and_the_loop_stands_still)
    await t.enqueue_many([{"n": n} for n in range(50)])
    await worker.start()
    await until(lambda: inbox.one("select count(*) from holdfast.archive") == 50)
    await worker.stop()
    assert recalled
    assert sorted(ran) == list(range(50))
    assert inbox.one("select max(attempts) from holdfast.archive") == 1
    assert worker.engine.tally.counters.lease_lost == 0


@pytest.mark.direct  # the flag is a lock of a session
async def test_others_are_woken_when_a_worker_does_not_run_even_if_it_holds_nothing(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may have been woken for a job, and stopped before it claimed it.
    monkeypatch.setattr(keeper, "BLOCKED", 0.0)
    database = Database(inbox.url)
    session = await database.connect("sleeper")
    heard: list[object] = []
    await session.add_listener("holdfast.wake", lambda *said: heard.append(said[-1]))
    await session.execute("select pg_advisory_lock_shared(holdfast.flag('asleep', 'default'))")
    it = Keeper(database, WorkerSettings(), [["default"]], Occurrences())
    it.workers.append(Kept(ledger := Ledger(), read_notices=lambda: None))
    ledger.set_name("stalled")
    ledger.pulse()
    await it.round()
    await until(lambda: ":default" in heard)
    await it._link.close()
    await session.close()


async def test_a_claim_that_is_sent_after_the_recall_is_not_handed_back(
    inbox: Inbox, one: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop runs again just after the keeper has noted the recall: what it claims now, it also starts."""
    monkeypatch.setattr(keeper, "BLOCKED", 0.0)
    monkeypatch.setattr(keeper, "SETTLING", 0.5)
    before, after = await one.add(2)
    await one.claim("stalled", limit=1)
    it = Keeper(database_at(inbox.url), WorkerSettings(), [["default"]], Occurrences())
    it.workers.append(kept := Kept(ledger := Ledger(), read_notices=lambda: None))
    ledger.set_name("stalled")
    ledger.pulse()
    sent_before = marks.now()
    recalling = asyncio.create_task(it._recall_if_blocked(kept))
    await until(lambda: recalling.done() or ledger.recalled(sent_before))
    assert not recalling.done()
    sent = marks.now()
    await one.claim("stalled", limit=1)
    await recalling
    assert (await one.row(before))["status"] == "pending"
    assert not ledger.recalled(sent)
    assert (await one.row(after))["claimed_by"] == "stalled"
    await it._link.close()


async def test_a_recall_that_failed_is_done_again_in_the_next_round(
    inbox: Inbox, one: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "BLOCKED", 0.0)
    (job,) = await one.add(1)
    await one.claim("stalled", limit=1)
    it = Keeper(database_at(inbox.url), WorkerSettings(), [["default"]], Occurrences())
    it.workers.append(Kept(ledger := Ledger(), read_notices=lambda: None))
    ledger.set_name("stalled")
    ledger.pulse()
    run, calls = it._link.run, 0

    async def cut_before_the_rows_are_handed_back(*call: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            it._link.drop()
            raise Unreachable("the connection was lost")
        return await run(*call, **options)

    monkeypatch.setattr(it._link, "run", cut_before_the_rows_are_handed_back)
    await it.round()
    assert (await one.row(job))["status"] == "processing"
    await it.round()
    assert (await one.row(job))["status"] == "pending"
    await it._link.close()
