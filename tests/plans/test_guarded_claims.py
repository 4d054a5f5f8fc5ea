"""P15 for the guarded claim: pages touched, whatever waits.

The statements inside the function are counted with the statement that calls it.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.inbox import JOB, Session, guarded_arguments, session
from tests.support.plans import run_explained

from holdfast.db.link import Link
from holdfast.inbox.claim import Known
from holdfast.inbox.guarded import LOOK_LEAST, GuardedCourse
from holdfast.model.floor import START

STUCK = ["stuck 0", "stuck 1"]
BLOCKED = 20_000
PENDING = 200_000
LARGE = 1.5
"""As a factor: what a claim may cost in a large inbox of what it costs in a small one."""


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    """Vacuumed and analysed only when the test says so."""
    async with session(migrated_url) as opened:
        await opened.connection.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
        yield opened


async def fill(one: Session, count: int, key: str, *, owned: bool = False) -> None:
    """Ordered rows, due for an hour and less; `key` is an expression of n."""
    await one.connection.execute(
        f"""
        insert into holdfast.inbox (partition_key, partition_bucket, payload, available_at, ordered, owned)
        select {key}, 1, '{{"type": "job"}}', now() - interval '1 hour' + n * interval '1 millisecond', true, {owned}
        from generate_series(1, {count}) n
        """,
        timeout=300,
    )


async def buffers(one: Session, **options: Any) -> int:
    """Pages touched by a guarded claim, the second of two, so that the first has read what is cached per session."""
    for _ in range(2):
        plan = await run_explained(one, "claim_guarded", *guarded_arguments(block=False, **options))
    return plan.buffers


# Rows behind stuck keys


async def test_claims_do_not_walk_what_waits_behind_stuck_keys(one: Session) -> None:
    await fill(one, 500, "'free ' || n")
    alone = await buffers(one, take=10)
    await one.connection.execute("truncate holdfast.inbox")

    await fill(one, 2, "'stuck ' || n % 2")
    assert {claim.key for claim in await one.claim_guarded("stuck")} == set(STUCK)
    await fill(one, BLOCKED, "'stuck ' || n % 2")
    await fill(one, 500, "'free ' || n")
    await one.connection.execute("update holdfast.inbox set available_at = now() where partition_key like 'free %'")

    link = Link(one.database, "worker")
    course = GuardedCourse(link, "w1", ["default"], Known(JOB), 90.0)
    looks = 1
    while not (await course.claim(10)).claims:  # it passes them, a look at a time
        looks += 1
        assert looks < BLOCKED / LOOK_LEAST / 4, "its looks do not grow"
    passed = await buffers(one, take=10, start=course.floor.hint(course.floor.lanes[1]))
    left = int(await one.connection.fetchval("select count(*) from holdfast.inbox where status = 'pending'"))

    course._patrol_at = 0.0
    while course._patrol_at == 0.0:  # it blocks them, a chunk at a time
        await course._walk_patrol(1)
    await link.close()
    await one.connection.execute("vacuum holdfast.inbox")  # what they left behind in the index of the claim
    afterwards = await buffers(one, take=10, start=START)
    blocked = await one.connection.fetchval("select count(*) from holdfast.inbox where status = 'blocked'")
    print(f"{looks} looks to pass them; pages: {alone} without them, {passed} past them, {afterwards} once blocked")
    assert left >= BLOCKED
    assert blocked == BLOCKED
    assert passed <= LARGE * alone
    assert afterwards <= LARGE * alone


# A large inbox


async def cost(url: str, owned: bool, one: Session | None = None) -> int:
    """Of claims along the lanes and through keys; in a new session, or in one whose plans are from before."""
    if one is None:
        async with session(url, "new") as fresh:
            return await cost(url, owned, fresh)
    buckets = [1] if owned else []
    along = await buffers(one, take=50, buckets=buckets)
    through = await buffers(
        one, take=50, look=0, keys=0, buckets=buckets, vacated=[("default", f"key {n}") for n in range(1, 51)]
    )
    return along + through


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("owned", [False, True], ids=["free", "owned"])
async def test_a_guarded_claim_touches_no_more_pages_in_a_large_inbox(
    one: Session, migrated_url: str, owned: bool
) -> None:
    empty = await cost(migrated_url, owned, one)  # this session's plans are made for nothing
    await fill(one, 1_000, "'key ' || n % 100", owned=owned)
    small = await cost(migrated_url, owned)
    await fill(one, PENDING, "'key ' || n % 20000", owned=owned)
    large = {
        "planned when empty": await cost(migrated_url, owned, one),
        "never analysed": await cost(migrated_url, owned),
    }
    await one.connection.execute("analyze", timeout=300)
    large["analysed"] = await cost(migrated_url, owned)
    print(f"pages touched: {empty} when empty, {small} at 1,000 rows, at {PENDING:,}: {large}")
    assert max(large.values()) <= LARGE * small
