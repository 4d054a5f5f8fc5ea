"""How long a worker believes that its leases last: never longer than the database does, however slow the answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import pytest
from tests.support.proxy import Proxy, proxied
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.loading import served
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.ledger import Held, Ledger
from holdfast.worker.settings import WorkerSettings

pytestmark = pytest.mark.direct  # behind a pooler each statement is several trips, and slow answers are time-outs

LEASE = 6.0
NEVER = 3600.0
SLOW = 0.25
"""Seconds that each way takes: two trips fit into a keeper's patience, a quarter of the lease."""


@dataclass
class Slow:
    """A worker on a link that can be made slow, and a handler that waits for the test."""

    proxy: Proxy
    ledger: Ledger
    opened: asyncio.Event
    wake: Callable[[], None]


@asynccontextmanager
async def working(inbox: Inbox, ordered: bool = False) -> AsyncIterator[Slow]:
    """It looks when it is woken, and has run a job: so its claim is prepared, and a question is one trip."""
    opened = asyncio.Event()
    async with proxied(inbox.url) as proxy:
        hf = Holdfast(proxy.url)

        @hf.task(ordered=ordered)
        async def first() -> None:
            pass

        @hf.task(ordered=ordered)
        async def wait() -> None:
            await opened.wait()

        @hf.task(ordered=ordered)
        async def hold() -> None:
            await asyncio.sleep(3600)

        settings = WorkerSettings(
            lease=LEASE, poll_min=NEVER, poll_max=NEVER, notify=False, drain=0, housekeeping=NEVER
        )
        worker = EmbeddedWorker(served(hf), settings)
        await worker.start()
        try:
            await enqueue(inbox, "first", ordered=ordered)
            worker.engine.wake()
            await until(lambda: worker.engine.tally.counters.completed == 1, seconds=20)
            yield Slow(proxy, worker.engine.ledger, opened, worker.engine.wake)
        finally:
            proxy.delay = 0.0
            await worker.stop()
            await hf.close()


def held(ledger: Ledger, job: UUID) -> Held | None:
    return next((row for row in ledger.held() if row.id == job), None)


def check(inbox: Inbox, ledger: Ledger, job: UUID) -> None:
    """What the worker believes is asked after the database, so it may only be less."""
    left = inbox.one(
        "select extract(epoch from lease_expires_at - clock_timestamp())::float8 from holdfast.inbox where id = %s", job
    )
    row = held(ledger, job)
    assert row is not None
    believed = (row.renewed - marks.now()) / 1e9 + LEASE
    assert believed < left, f"it believes in {believed:.3f} s, and has {left:.3f} s"


async def enqueue(inbox: Inbox, *kinds: str, ordered: bool = False) -> list[UUID]:
    """Of one key, and in this order."""
    # On a new connection, which takes some milliseconds: before them, the hand-over after the last row of the key may
    # still be in progress.
    rows = await asyncio.to_thread(
        Inbox(inbox.url).rows,
        "select holdfast.enqueue(kind, ordered => %s, key => 'k') as id from unnest(%s::text[]) as k (kind)",
        ordered,
        list(kinds),
    )
    return [row["id"] for row in rows]


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_lease_counts_from_the_question_at_claim(inbox: Inbox, ordered: bool) -> None:
    async with working(inbox, ordered) as slow:
        slow.proxy.delay = SLOW
        (job,) = await enqueue(inbox, "hold", ordered=ordered)
        slow.wake()
        await until(lambda: held(slow.ledger, job) is not None, seconds=20)
        check(inbox, slow.ledger, job)


async def test_a_lease_counts_from_the_question_at_hand_over(inbox: Inbox) -> None:
    async with working(inbox, ordered=True) as slow:
        _, second, third = await enqueue(inbox, "first", "wait", "hold", ordered=True)
        slow.wake()
        await until(lambda: inbox.status(second) == "processing", seconds=20)  # handed over: that is prepared, too
        slow.proxy.delay = SLOW
        slow.opened.set()
        await until(lambda: held(slow.ledger, third) is not None, seconds=20)
        check(inbox, slow.ledger, third)


async def test_a_lease_counts_from_the_question_at_renewal(inbox: Inbox) -> None:
    async with working(inbox) as slow:
        (job,) = await enqueue(inbox, "hold")
        slow.wake()

        async def next_renewal(last: int) -> int:
            """When it was sent, as the worker believes."""

            def renewed() -> bool:
                row = held(slow.ledger, job)
                return row is not None and row.renewed > last

            await until(renewed)
            row = held(slow.ledger, job)
            assert row is not None
            return row.renewed

        claimed = await next_renewal(0)
        first = await next_renewal(claimed)
        slow.proxy.delay = SLOW
        await next_renewal(first)
        check(inbox, slow.ledger, job)
