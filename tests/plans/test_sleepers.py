"""A million workflow instances that sleep cost nothing but their rows: what workers and chores read beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from tests.plans.contract import HOT
from tests.plans.judging import complaints
from tests.support.inbox import Session, claim_lanes, guarded_arguments, session
from tests.support.plans import run_explained
from tests.workflow.flows import KNOWN, declare

FEW, MANY = 1_000, 1_000_000
FACTOR, PAGES = 1.5, 10
"""What a statement may touch beside many: so many times what it touches beside few, and the pages of deeper indexes."""
SAMPLE = 3_000
"""Pages that the gauges may touch besides: they are measured in a sample of bounded size."""
ROOMS = ("inbox", "kinds", "housekeeping", "ownership", "workflow")
Run = tuple[str, Sequence[Any], str]


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    """With jobs to claim. Vacuumed and analysed only when the test says so."""
    async with session(migrated_url) as opened:
        for table in ("inbox", "instances", "steps"):
            await opened.connection.execute(f"alter table holdfast.{table} set (autovacuum_enabled = off)")
        await declare(opened)
        await opened.add(200, kind="checkout")
        for n in range(50):
            await opened.add(2, ordered=True, key=f"key {n}")
        yield opened


async def sleep(one: Session, count: int) -> None:
    """Instances that are parked in a step that sleeps, for an hour and more."""
    await one.connection.execute(
        f"""
        with started as (
            insert into holdfast.inbox (partition_key, partition_bucket, payload, available_at, lease_generation)
            select 'sleeper ' || n, n % 1024, '{{"type": "checkout", "order_id": 9182}}',
                   now() + interval '1 hour' + n * interval '1 millisecond', 1
            from generate_series(1, {count}) n
            returning id, available_at
        ),
        parked as (
            insert into holdfast.instances (job_id, parked_generation, waits, waits_since, wake_at)
            select s.id, 1, array['timer:nap'], now(), s.available_at from started s
        )
        insert into holdfast.steps (job_id, name, ordinal, kind, status, wake_at, generation, started_at)
        select s.id, 'nap', 0, 'sleep', 'open', s.available_at, 1, now() from started s
        """,
        timeout=300,
    )
    for table in ("inbox", "instances", "steps"):
        await one.connection.execute(f"analyze holdfast.{table}", timeout=300)


def statements() -> Iterator[Run]:
    """The claims, with what they find here, and whatever else workers and chores run often."""
    yield "inbox/claim", (*claim_lanes(["default"]), 100, list(KNOWN), "{}", "w1", 90.0, True, True), ""
    yield "inbox/claim_guarded", guarded_arguments(known=KNOWN, rescan=True), ""
    yield "housekeeping/gauges", (), ""
    for name, expected in HOT.items():
        if name.partition("/")[0] in ROOMS and expected.worker:
            for arguments in expected.runs:
                yield name, arguments, expected.before


async def costs(one: Session) -> list[tuple[str, int]]:
    """Pages that each touches, in its second run: the first one reads what is cached per session."""
    found = []
    for name, arguments, before in statements():
        plans = [await run_explained(one, name, *arguments, before=before) for _ in range(2)]
        found.append((name, plans[1].buffers))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_million_sleepers_cost_nothing_but_their_rows(one: Session, migrated_url: str) -> None:
    await sleep(one, FEW)
    few = await costs(one)
    await sleep(one, MANY - FEW)
    many = await costs(one)
    found = {
        f"{name} #{n}": (before, after)
        for n, ((name, before), (_, after)) in enumerate(zip(few, many, strict=True))
        if after > FACTOR * before + PAGES + (SAMPLE if name == "housekeeping/gauges" else 0)
    }
    assert not found, f"pages beside {FEW:,} and {MANY:,}: {found}"
    assert not await complaints(migrated_url), "the plans keep the contract"
