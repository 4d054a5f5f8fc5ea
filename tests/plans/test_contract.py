"""The contract of the plans is complete, and it can fail."""

from pathlib import Path

import asyncpg
import pytest
from tests.plans.contract import HOT, NESTED, NOT_HOT, ROOMS
from tests.plans.judging import complaints, text
from tests.support.pooler import direct

import holdfast

INDEXES = sorted(
    {index for expected in [*HOT.values(), *NESTED.values()] for index in expected.indexes if index.startswith("idx_")}
)


def test_every_statement_is_in_the_contract_or_said_not_to_be_hot() -> None:
    package = Path(holdfast.__file__).parent
    files = {f"{room}/{file.stem}" for room in ROOMS for file in (package / room).glob("*.sql")}
    assert files == {*HOT, *NOT_HOT}, "put a new statement into tests/plans/contract.py"
    assert not HOT.keys() & NOT_HOT.keys()


def test_every_statement_inside_a_function_is_run_by_one_of_the_contract() -> None:
    assert {words for expected in HOT.values() for words in expected.functions} == NESTED.keys()


# It can fail


async def change(url: str, sql: str) -> None:
    connection = await asyncpg.connect(direct(url))
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.mark.direct
@pytest.mark.parametrize("index", INDEXES)
async def test_an_index_that_is_gone_is_missed(migrated_url: str, index: str) -> None:
    await change(migrated_url, f"drop index holdfast.{index}")
    found = await complaints(migrated_url)
    # Without the index that is the arbiter, nobody is second, and the look for the first is not run at all.
    arbiters = {
        "idx_inbox_idempotency_key": "did not run 'set job_id = other.id'",
        "idx_inbox_unique": "did not run 'set payload = store_job.payload'",
    }
    complaint = arbiters.get(index, f"does not use {index}")
    assert any(words.endswith(complaint) for words in found), found


@pytest.mark.direct
async def test_an_index_that_leads_astray_is_noticed(migrated_url: str) -> None:
    """The planner would rather walk everything that a worker holds than look up a hundred ids."""
    await change(migrated_url, "create index astray on holdfast.inbox (claimed_by)")
    found = await complaints(migrated_url)
    assert any("reads inbox by astray" in complaint for complaint in found), found


@pytest.mark.direct
@pytest.mark.parametrize(
    ("name", "before", "after", "complaint"),
    [
        ("inbox/claim", "order by i.available_at, i.seq\n", "order by i.created_at, i.id\n", "has a Sort"),
        ("inbox/claim", ">= (lane.floor_at, lane.floor_seq)", "is not null", "without a bound on seq"),
        ("inbox/complete", "i.status::text = 'processing'", "i.status = 'processing'", "idx_inbox_stale_processing"),
        ("inbox/complete", "any (array[c.id])", "any ($1)", "joins in the order"),
        (
            "housekeeping/sweep",
            "i.lease_expires_at >= $1",
            "$1::timestamptz is not null",
            "without a bound on lease_expires_at>=",
        ),
    ],
)
async def test_a_statement_that_is_changed_for_the_worse_is_noticed(
    migrated_url: str, name: str, before: str, after: str, complaint: str
) -> None:
    assert before in text(name)
    found = await complaints(
        migrated_url, contract={name: HOT[name]}, changed={name: text(name).replace(before, after)}
    )
    assert any(complaint in words for words in found), found


@pytest.mark.direct
@pytest.mark.parametrize(
    ("function", "before", "after", "complaint"),
    [
        ("candidates", "order by i.available_at, i.seq", "order by i.created_at", "has a Sort"),
        ("candidates", "and i.partition_bucket = o.bucket", "", "without a bound on partition_bucket"),
        (
            "unblock_heads",
            "get diagnostics",
            "perform count(*) from holdfast.inbox; get diagnostics",
            "not in the contract",
        ),
    ],
)
async def test_a_function_that_is_changed_for_the_worse_is_noticed(
    migrated_url: str, function: str, before: str, after: str, complaint: str
) -> None:
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        definition = await connection.fetchval(f"select pg_get_functiondef('holdfast.{function}'::regproc)")
        assert before in definition
        await connection.execute(definition.replace(before, after))
    finally:
        await connection.close()
    found = await complaints(migrated_url)
    assert any(complaint in words for words in found), found
