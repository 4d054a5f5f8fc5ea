"""What measuring the gauges reads: a sample, and the first rows of each index, with any planner settings."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.plans import filling
from tests.plans.contract import Expected
from tests.plans.judging import judge_plan
from tests.support.inbox import Session, session
from tests.support.plans import observer

LANES = {"idx_inbox_claim": "queue priority", "idx_inbox_ordered_claim": "queue priority"}
FUNCTIONS = {
    # holdfast.waiting_queues, claim_ages, count_lanes, unclaimable and sample_inbox, by words of theirs
    "in_order as (": Expected(
        {"idx_inbox_claim": "", "idx_inbox_ordered_claim": "", "idx_inbox_bucket_claim": "", "idx_inbox_blocked": ""}
    ),
    "oldest as (": Expected(
        {"idx_inbox_claim": "queue priority available_at", "idx_inbox_ordered_claim": "queue priority available_at",
         "idx_inbox_bucket_claim": "queue"}
    ),
    "blocked as materialized": Expected(
        {**LANES, "idx_inbox_bucket_claim": "queue", "idx_inbox_blocked": "queue", "idx_inbox_stale_processing": "",
         "idx_inbox_dead": ""}
    ),
    "live as materialized": Expected({**LANES, "idx_inbox_bucket_claim": "queue"}),
    "tablesample system": Expected({"Sample Scan": ""}),
}  # fmt: skip


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    """Analysed only when the test says so."""
    async with session(migrated_url) as opened:
        await opened.connection.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
        yield opened


@pytest.mark.direct
@pytest.mark.parametrize("analysed", ["never", "empty", "full"])
async def test_measuring_reads_no_more_than_it_must(one: Session, migrated_url: str, analysed: str) -> None:
    if analysed == "empty":
        await one.connection.execute("analyze")
    await filling.fill(one.connection, 5)
    if analysed == "full":
        await one.connection.execute("analyze")
    found = []
    for worker in (True, False):
        async with observer(migrated_url, worker=worker, generic=False) as watching:
            seen = await watching.watch("select count(*) from holdfast.measure(100, 1)", [()])
        for words, expected in FUNCTIONS.items():
            plans = [each.plan for each in seen if words in each.text]
            assert plans, f"did not run {words!r}"
            found += [f"{words!r}: {complaint}" for plan in plans for complaint in judge_plan(plan, expected, True)]
    assert not found, "\n".join(found)
