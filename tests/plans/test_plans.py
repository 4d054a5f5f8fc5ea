"""P15: the plans of every hot statement keep the contract.

At 0, 1,000 and 1,000,000 rows, never analysed and analysed, with half a million rows for tomorrow, with 100,000 rows of
an unknown kind in front; made for their arguments and as generic plans. No statement sorts, except a handful of rows
that are locked in order; none reads a table that grows without its index; completion knows the primary key alone.
"""

from collections.abc import AsyncIterator
from datetime import datetime

import pytest
import pytest_asyncio
from tests.plans import filling
from tests.plans.judging import complaints
from tests.support.inbox import JOB, Session, claim_lanes, session
from tests.support.plans import run_explained


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    """Analysed only when the test says so."""
    async with session(migrated_url) as opened:
        for table in ("inbox", "dedupe", "once", "archive_default"):
            await opened.connection.execute(f"alter table holdfast.{table} set (autovacuum_enabled = off)")
        yield opened


async def fill(one: Session, count: int, kind: str = "job", due: str = "-1 hour") -> None:
    await one.connection.execute(
        f"""
        insert into holdfast.inbox (partition_key, partition_bucket, payload, available_at, lease_generation, attempts)
        select 'key', 1, '{{"type": "{kind}"}}', now() + interval '{due}' + n * interval '1 millisecond', 1, 1
        from generate_series(1, {count}) n
        """,
        timeout=300,
    )


async def keeps_the_contract(one: Session, url: str) -> None:
    """Never analysed, and then analysed."""
    found = [f"never analysed: {complaint}" for complaint in await complaints(url)]
    await one.connection.execute("analyze", timeout=300)
    found += [f"analysed: {complaint}" for complaint in await complaints(url)]
    assert not found, "\n".join(found)


@pytest.mark.direct
async def test_plans_of_an_empty_inbox(one: Session, migrated_url: str) -> None:
    await keeps_the_contract(one, migrated_url)


@pytest.mark.direct
async def test_plans_of_a_thousand_rows(one: Session, migrated_url: str) -> None:
    await filling.fill(one.connection, 1)
    await keeps_the_contract(one, migrated_url)


@pytest.mark.direct
async def test_plans_of_an_archive_whose_days_have_leaves(one: Session, migrated_url: str) -> None:
    await one.connection.execute(
        "insert into holdfast.kinds (kind, version, app, arguments, keep_days) values ('job', 1, 'shop', '{}', 7)"
    )
    await one.connection.execute("select holdfast.make_partitions(7)")
    await filling.fill(one.connection, 1)
    leaves = "select count(*) from pg_partition_tree('holdfast.archive') where isleaf and relid::text ~ '_(7d|rest)$'"
    assert await one.connection.fetchval(leaves) == 14
    await keeps_the_contract(one, migrated_url)


@pytest.mark.direct
async def test_plans_of_an_inbox_that_was_analysed_empty(one: Session, migrated_url: str) -> None:
    await one.connection.execute("analyze")
    await filling.fill(one.connection, 20)
    await keeps_the_contract(one, migrated_url)


@pytest.mark.direct
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_plans_of_a_million_rows(one: Session, migrated_url: str) -> None:
    await filling.fill(one.connection, 1000)
    await keeps_the_contract(one, migrated_url)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_plans_with_half_a_million_rows_for_tomorrow(one: Session, migrated_url: str) -> None:
    await fill(one, 1_000)
    before = await claim_buffers(one)
    await fill(one, 500_000, due="1 day")
    await keeps_the_contract(one, migrated_url)
    assert await claim_buffers(one) <= 1.5 * before


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_plans_with_a_hundred_thousand_rows_of_an_unknown_kind_in_front(one: Session, migrated_url: str) -> None:
    """They are walked once, by the first claim; from its floor on they cost nothing."""
    await fill(one, 1_000)
    before = await claim_buffers(one)
    await fill(one, 100_000, kind="unknown", due="-2 days")
    await keeps_the_contract(one, migrated_url)
    floor = await one.connection.fetchval("select min(available_at) from holdfast.inbox where kind = 'job'")
    assert await claim_buffers(one, floor) <= 1.5 * before


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_claim_touches_no_more_pages_at_a_million_rows_than_at_a_thousand(one: Session) -> None:
    await fill(one, 1_000)
    at_a_thousand = await claim_buffers(one)
    await fill(one, 999_000)
    at_a_million = await claim_buffers(one)
    assert at_a_million <= 1.5 * at_a_thousand


async def claim_buffers(one: Session, floor: datetime | None = None) -> int:
    """Pages touched by a claim of 100, the second of two, so that the first has read what is cached per session."""
    starts = [(floor, 0)] * 4 if floor is not None else None
    arguments = (*claim_lanes(["default"], starts), 100, list(JOB), "{}", "w1", 90.0, False, False)
    for _ in range(2):
        plan = await run_explained(one, "claim", *arguments)
    return plan.buffers
