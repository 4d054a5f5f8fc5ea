"""Everything that writes rows, against everything else, on few rows. Lock orders are right or this finds it.

HOLDFAST_LONG=1 hunts for a minute, HOLDFAST_HUNT_SECONDS for as long as one likes.
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from tests.support.workers import Inbox

from holdfast import Flow, Holdfast, NotFound, TxContext
from holdfast.db.link import Link
from holdfast.errors import Contended
from holdfast.housekeeping.loop import Housekeeper
from holdfast.inbox import ending, renew
from holdfast.inbox.claim import Known
from holdfast.inbox.claimer import Claimer
from holdfast.model.job import Hold
from holdfast.model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Outcome, Snoozed

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SECONDS = float(os.environ.get("HOLDFAST_HUNT_SECONDS", "60" if os.environ.get("HOLDFAST_LONG") == "1" else "10"))
KEYS = [f"shared-{n}" for n in range(40)]
OUTCOMES: list[Outcome] = [
    Completed(), Completed(), AttemptFailed("E", "m"), Ended(Final.FAILED, "no"), Snoozed(0.0), HandedBack(),
]  # fmt: skip


async def repeat(work: Callable[[], Awaitable[Any]], until: float) -> int:
    rounds = 0
    while time.monotonic() < until:
        await work()
        rounds += 1
        await asyncio.sleep(0)
    return rounds


@pytest.mark.timeout(SECONDS + 120)
async def test_nothing_deadlocks_and_nothing_sticks(migrated_url: str) -> None:
    inbox = Inbox(migrated_url)
    inbox.prepare(backoff_unit=0.001, dedupe_horizon=0.2)
    hf = Holdfast(migrated_url)

    @hf.task(max_attempts=3)
    async def step(n: int) -> None: ...

    @hf.task(max_attempts=3)
    async def booked(ctx: TxContext, n: int) -> None:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        await step.on(ctx.tx, idempotency_key=random.choice(KEYS)).enqueue(n=0)
        if random.random() < 0.2:
            raise RuntimeError("now and then")

    async def unbook(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, -1)", ctx.job_id)

    async def book(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, 1)", ctx.job_id)
        await step.on(ctx.tx, idempotency_key=random.choice(KEYS)).enqueue(n=0)

    @hf.workflow(version=1)
    async def order(flow: Flow) -> None:
        await flow.step("book", book, undo=unbook)
        await flow.sleep("a while", 0.01)
        await flow.step("more", book, undo=unbook)

    until = time.monotonic() + SECONDS
    ids: list[UUID] = []

    async def produce() -> None:
        # Batches that share idempotency keys, in orders of their own.
        keys = random.sample(KEYS, 12)
        orders = [step.options(idempotency_key=key) for key in keys]
        jobs = [await order.enqueue(n=0) for order in orders[:3]]
        jobs += await step.enqueue_many([{"n": 0}] * 12, idempotency_keys=random.sample(KEYS, 12))
        jobs += await step.enqueue_many([{"n": n} for n in range(30)])
        jobs += await booked.enqueue_many([{"n": n} for n in range(5)])
        jobs += await order.start_many([{}] * 5)
        ids.extend(UUID(str(job.id)) for job in jobs)
        del ids[:-400]

    async def executor(number: int) -> int:
        """A worker of the old school: claims, then renews, ends and loses rows in batches of every shape."""
        name = f"executor-{number}"
        links = [Link(hf._database, f"{what} {name}") for what in ("claim", "write", "keeper")]
        claimer = Claimer(links[0], name, ["default"], Known({"step": (1, 1)}), 0.05)

        async def work() -> None:
            claims = (await claimer.claim(40)).claims
            random.shuffle(claims)
            outcomes = [random.choice(OUTCOMES) for _ in claims]
            holds = [Hold(claim.worker, claim.id, claim.generation) for claim in claims]
            await asyncio.gather(
                ending.write(links[1], list(zip(claims, outcomes, strict=True))),
                renew.renew(links[2], holds, 0.05),
            )

        try:
            return await repeat(work, until)
        finally:
            for link in links:
                await link.close()

    async def operate() -> None:
        if not ids:
            return
        for id in random.sample(ids, min(5, len(ids))):
            with suppress(NotFound):
                await hf.cancel_many([id])  # it may have become a dead letter
        await hf.revive(random.sample(ids, min(50, len(ids))))

    async def sweep() -> int:
        house = Housekeeper(hf._database, 0.001, 0)
        try:
            return await repeat(house.round, until)
        finally:
            house._drop()

    try:
        async with hf.worker(concurrency=10, lease=5, housekeeping=0.5, poll=0.02) as worker:
            rounds = await asyncio.gather(
                repeat(produce, until), repeat(produce, until), executor(1), executor(2), executor(3),
                repeat(operate, until), repeat(operate, until), sweep(), sweep(),
            )  # fmt: skip
            assert all(rounds), rounds
            print("rounds", rounds)
            # Nothing sticks: once the storm is over, everything ends.
            house = Housekeeper(hf._database, 0.001, 0)
            deadline = time.monotonic() + 60
            while inbox.one("select count(*) from holdfast.inbox where status in ('pending', 'processing')"):
                assert time.monotonic() < deadline, inbox.rows("select status, count(*) from holdfast.inbox group by 1")
                await house.round()
                await asyncio.sleep(0.1)
            house._drop()
            assert worker.engine.tally.counters.completed > 0
    except Contended as error:
        pytest.fail(f"a statement met a deadlock: {error}")
    finally:
        await hf.close()
    # Every connection that could have met one is closed by now, and has reported.
    assert inbox.one("select deadlocks from pg_stat_database where datname = current_database()") == 0
    assert inbox.one(
        "select count(*) from (select job from effects join holdfast.archive a on a.id = job and a.status = 'completed'"
        " where a.kind = 'booked' group by job having count(*) <> 1) twice"
    ) == 0  # fmt: skip
    # What a cancelled instance has done is undone, and nothing else.
    assert inbox.one(
        "select count(*) from (select from effects join holdfast.archive a on a.id = job where a.kind = 'order'"
        " group by a.id, a.status having sum(attempt) <> case a.status::text when 'completed' then 2 else 0 end) wrong"
    ) == 0  # fmt: skip
    assert inbox.one("select count(distinct status) from holdfast.archive where kind = 'order'") == 2
