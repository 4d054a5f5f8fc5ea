"""A transaction left open elsewhere keeps every dead index entry alive. With the floor, claims do not walk them."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.support.inbox import JOB, Session, claim_lanes, session
from tests.support.plans import run_explained
from tests.support.pooler import direct

from holdfast.db.link import Link
from holdfast.inbox.claim import FreeCourse, Known
from holdfast.inbox.ending import write
from holdfast.model.floor import Position
from holdfast.model.outcome import Completed

JOBS = 20_000


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    async with session(migrated_url) as opened:
        yield opened


async def buffers(one: Session, starts: list[Position] | None) -> int:
    """Pages touched by a claim of ten from there on, or from the very start."""
    arguments = (*claim_lanes(["default"], starts), 10, list(JOB), "{}", "other", 90.0, False, False)
    return (await run_explained(one, "claim", *arguments)).buffers


@pytest.mark.slow
async def test_claims_stay_flat_with_the_floor_and_grow_without(one: Session, migrated_url: str) -> None:
    await one.add(JOBS + 1000)
    holder = await asyncpg.connect(direct(migrated_url))
    await holder.execute("begin isolation level repeatable read")
    await holder.fetchval("select count(*) from holdfast.queues")
    link = Link(one.database, "worker")
    claimer = FreeCourse(link, "w1", ["default"], Known(JOB), 90.0)

    with_floor, without = [], []
    done = 0
    while done < JOBS:
        batch = await claimer.claim(500)
        await write(link, [(claim, Completed()) for claim in batch.claims])
        done += len(batch.claims)
        with_floor.append(await buffers(one, claimer.floor.starts(rescan=False)))
        without.append(await buffers(one, None))
    await link.close()
    await holder.close()

    assert max(with_floor[-4:]) <= 2 * max(with_floor[:4])
    assert min(without[-4:]) >= 4 * max(without[:1])
    assert min(without[-4:]) >= 4 * max(with_floor[-4:])
