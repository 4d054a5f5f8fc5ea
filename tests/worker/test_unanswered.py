"""Claims whose answer is lost: the server has committed them, and the worker does not know their rows."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from tests.support.inbox import Session
from tests.support.pooler import database_at
from tests.support.proxy import Proxy, proxied
from tests.support.waiting import PATIENCE, until
from tests.support.workers import Inbox

from holdfast import Context, Holdfast
from holdfast.db.link import Link
from holdfast.errors import Unreachable
from holdfast.model.occurrences import Occurrences
from holdfast.worker.claiming.unanswered import Unanswered
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.ledger import Ledger

pytestmark = pytest.mark.direct  # a pooler would not know that this claim is the worker's

NEVER: dict[str, Any] = {"lease": 300, "housekeeping": 3600}
"""Nobody sweeps, and no lease runs out."""


@pytest_asyncio.fixture
async def proxy(inbox: Inbox) -> AsyncIterator[Proxy]:
    async with proxied(inbox.url) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def far(proxy: Proxy) -> AsyncIterator[Holdfast]:
    app = Holdfast(proxy.url)
    yield app
    await app.close()


@pytest_asyncio.fixture
async def link(migrated_url: str) -> AsyncIterator[Link]:
    link = Link(database_at(migrated_url), "write")
    yield link
    await link.close()


@pytest.mark.parametrize("ordered", [False, True])
async def test_its_rows_do_not_wait_for_their_lease(
    far: Holdfast, proxy: Proxy, inbox: Inbox, ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @far.task(ordered=ordered)
    async def job(ctx: Context) -> None:
        ran.append(ctx.attempt)

    ids = [(await job.options(key=f"k{n}").enqueue()).id for n in range(4)]
    proxy.cut_after(b"holdfast claim ", b"SELECT 5")  # the four, and what the claim tells about itself
    async with far.worker(concurrency=10, **NEVER):
        await until(lambda: inbox.count(ids, "completed") == 4, 5)
    assert proxy.cuts == 1
    assert ran == [1] * 4, "the attempt that nobody made is not counted"
    assert "handed back 4 jobs of a claim whose answer was lost" in caplog.text


async def test_rows_of_a_claim_in_progress_and_those_in_the_ledger_stay(one: Session, link: Link) -> None:
    await one.add(3)
    ledger = Ledger()
    unanswered = Unanswered(link, "w1", ledger, Occurrences(), deadline=60)
    running = asyncio.create_task(unanswered.run())
    (held,) = await one.claim("w1", limit=1)
    ledger.hold(held.id, held.generation, marks.now())
    with unanswered.claim():
        brought, lost = await one.claim("w1", limit=2)
        with pytest.raises(Unreachable), unanswered.claim():
            raise Unreachable("the answer was lost")
        await asyncio.sleep(0.5)
        assert await processing(one) == {held.id, brought.id, lost.id}, "the answer to this claim may bring them"
        ledger.hold(brought.id, brought.generation, marks.now())
    async with asyncio.timeout(PATIENCE):
        while await processing(one) != {held.id, brought.id}:
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    assert await processing(one) == {held.id, brought.id}
    assert (await one.row(lost.id))["attempts"] == 0
    running.cancel()


async def test_it_waits_for_the_server(one: Session, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    await one.add(1)
    (lost,) = await one.claim("w1")
    run, failures = link.run, 0

    async def fails_at_first(*arguments: Any, **options: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise Unreachable("away")
        return await run(*arguments, **options)

    monkeypatch.setattr(link, "run", fails_at_first)
    unanswered = Unanswered(link, "w1", Ledger(), Occurrences(), deadline=60)
    running = asyncio.create_task(unanswered.run())
    with pytest.raises(Unreachable), unanswered.claim():
        raise Unreachable("the answer was lost")
    async with asyncio.timeout(PATIENCE):
        while await processing(one):
            await asyncio.sleep(0.02)
    assert (await one.row(lost.id))["status"] == "pending"
    running.cancel()


async def processing(one: Session) -> set[UUID]:
    rows = await one.connection.fetch("select id from holdfast.inbox where status = 'processing'")
    return {row[0] for row in rows}
