"""What a keeper recalls is not started, also when the answer to its claim comes after that; and others are woken."""

from typing import Any

import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.db.database import Database
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases import keeper
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
    claim, database = worker.engine.claimer.claim, Database(inbox.url)
    recalled = 0

    async def and_the_loop_stands_still(limit: int) -> Any:
        nonlocal recalled
        batch = await claim(limit)
        if batch.claims and not recalled:
            recalled = len(batch.claims)
            worker.engine.ledger.recall()
            session = await database.connect("keeper")
            await session.fetch(database.sql("inbox", "hand_back_worker"), worker.name, [])
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
