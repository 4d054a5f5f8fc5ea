"""P15: the plans of every hot statement, under a worker's planner settings.

At 0 and at 1,000,000 rows, never analysed and analysed, with half a million rows for tomorrow, with 100,000 rows of an
unknown kind in front; made for their arguments and as generic plans. No statement sorts, except a handful of rows that
are locked in order; none reads a table without its index; completion knows the primary key alone.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from tests.support.inbox import JOB, Session, claim_lanes, session
from tests.support.plans import Plan, explain, run_explained

IDS = sorted(UUID(int=n * 2**100) for n in range(1, 101))
GENERATIONS = [1] * len(IDS)
NOTHING: list[str | None] = [None] * len(IDS)
RECENT = datetime(2026, 1, 1, tzinfo=UTC)
PKEY = {"inbox_pkey"}


@dataclass(frozen=True)
class Expected:
    arguments: tuple[Any, ...]
    inbox: set[str]
    archive: str | None = None
    sorts: bool = False
    """It orders the rows that it locks."""
    walks: str | None = None
    """An index that it may read from end to end."""
    follows_its_ids: bool = False
    """It locks rows in the order in which their ids are given."""


def lanes(at: datetime) -> tuple[list[Any], ...]:
    queues = ["default", "mail"]
    return claim_lanes(queues, [(at, 5)] * 4 * len(queues))


HOT = {
    "claim": Expected(
        (*lanes(RECENT), 100, ["job"], "{}", "w1", 90.0, True, True),
        {"idx_inbox_claim", "idx_inbox_suspect", "idx_inbox_ordered_claim", *PKEY},
    ),
    "patrol": Expected(("default", 1, RECENT, 0, RECENT, 9, 2000, ["job"], "{}"), {"idx_inbox_claim"}),
    "complete": Expected((IDS, GENERATIONS, NOTHING, NOTHING, "w1"), PKEY, follows_its_ids=True),
    "fail": Expected((IDS, GENERATIONS, NOTHING, NOTHING, "w1", False), PKEY, follows_its_ids=True),
    "snooze": Expected((IDS, GENERATIONS, [1.0] * len(IDS), "w1"), PKEY, follows_its_ids=True),
    "renew": Expected((IDS, GENERATIONS, "w1", 90.0), PKEY, sorts=True),
    "release": Expected((IDS, GENERATIONS, "w1"), PKEY, sorts=True),
    # Once per death of a worker, what is in flight.
    "release_worker": Expected(("w1",), {"idx_inbox_stale_processing", *PKEY}, walks="idx_inbox_stale_processing"),
    "held": Expected((IDS, GENERATIONS, "w1"), PKEY),
    "confirm": Expected((IDS, GENERATIONS, "w1"), set(), archive="id_idx"),
    # It holds only what was cancelled while running.
    "cancelled": Expected((["w1", "w2"],), {"idx_inbox_cancel"}, walks="idx_inbox_cancel"),
    "cancel": Expected((IDS[0], "enough"), PKEY),
    "revive": Expected((IDS,), PKEY, sorts=True),
    "once_enter": Expected(("key", IDS[0], 5), PKEY),
}


def complaints(name: str, expected: Expected, plan: Plan) -> list[str]:
    found = []
    if plan.sorts() and not expected.sorts:
        found.append(f"sorts: {plan.sorts()}")
    if plan.reads("inbox") != expected.inbox:
        found.append(f"reads the inbox by {sorted(plan.reads('inbox'))}")
    for scan in plan.reads("archive"):
        if not scan.endswith(expected.archive or "never"):
            found.append(f"reads the archive by {scan}")
    for node in plan.nodes():
        index = node.get("Index Name", "queues_pkey")
        if not node.get("Index Cond") and index not in ("queues_pkey", expected.walks):
            found.append(f"walks all of {index}")
        if node["Node Type"] in ("Hash Join", "Merge Join"):
            found.append(f"has a {node['Node Type']}")
    if expected.follows_its_ids:
        (order,) = {
            tuple(child.get("Index Name", child["Node Type"]) for child in node["Plans"])
            for node in plan.nodes()
            if "Join Type" in node and any(child["Node Type"] == "Function Scan" for child in node["Plans"])
        }
        if order != ("Function Scan", "inbox_pkey"):
            found.append(f"joins in the order {order}")
    return [f"{name}: {complaint}" for complaint in found]


async def complaints_of_all(one: Session, state: str) -> list[str]:
    found = []
    for name, expected in HOT.items():
        for generic in (False, True):
            plan = await explain(one, name, expected.arguments, generic=generic)
            kind = "generic" if generic else "custom"
            found += [f"{state}, {kind}: {complaint}" for complaint in complaints(name, expected, plan)]
    return found


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    """Analysed only when the test says so."""
    async with session(migrated_url) as opened:
        await opened.connection.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
        yield opened


async def fill(one: Session, count: int, kind: str = "job", due: str = "-1 hour", status: str = "pending") -> None:
    await one.connection.execute(
        f"""
        insert into holdfast.inbox (
            partition_key, partition_bucket, payload, status, available_at, claimed_by, lease_expires_at,
            lease_generation, attempts)
        select 'key', 1, '{{"type": "{kind}"}}', '{status}',
               now() + interval '{due}' + n * interval '1 millisecond',
               case when '{status}' = 'processing' then 'w' || n % 20 end,
               case when '{status}' = 'processing' then now() + interval '1 minute' end, 1, 1
        from generate_series(1, {count}) n
        """,
        timeout=300,
    )


async def test_plans_of_an_empty_inbox(one: Session) -> None:
    found = await complaints_of_all(one, "never analysed")
    await one.connection.execute("analyze")
    found += await complaints_of_all(one, "analysed")
    assert not found, "\n".join(found)


async def test_plans_of_a_small_inbox_that_was_analysed_empty(one: Session) -> None:
    await one.connection.execute("analyze")
    await fill(one, 20_000)
    await fill(one, 2_000, status="processing")
    found = await complaints_of_all(one, "analysed when empty")
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_plans_of_a_million_rows(one: Session) -> None:
    await fill(one, 1_000_000)
    await fill(one, 20_000, status="processing")
    found = await complaints_of_all(one, "never analysed")
    await one.connection.execute("analyze", timeout=300)
    found += await complaints_of_all(one, "analysed")
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_plans_with_half_a_million_rows_for_tomorrow(one: Session) -> None:
    await fill(one, 1_000)
    before = await claim_buffers(one)
    await fill(one, 500_000, due="1 day")
    found = await complaints_of_all(one, "never analysed")
    await one.connection.execute("analyze", timeout=300)
    found += await complaints_of_all(one, "analysed")
    assert not found, "\n".join(found)
    assert await claim_buffers(one) <= 1.5 * before


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_plans_with_a_hundred_thousand_rows_of_an_unknown_kind_in_front(one: Session) -> None:
    """They are walked once, by the first claim; from its floor on they cost nothing."""
    await fill(one, 1_000)
    before = await claim_buffers(one)
    await fill(one, 100_000, kind="unknown", due="-2 days")
    found = await complaints_of_all(one, "never analysed")
    await one.connection.execute("analyze", timeout=300)
    found += await complaints_of_all(one, "analysed")
    assert not found, "\n".join(found)
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
