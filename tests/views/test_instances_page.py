"""The page of workflow instances: none is left out between two pages, whatever limits what is looked through."""

from typing import Any
from uuid import UUID

import pytest
from tests.support.inbox import Session

MANY = 1000


async def fill(one: Session) -> list[UUID]:
    """Instances, newest first: every second has waited; between them are other jobs."""
    await one.connection.execute(
        "insert into holdfast.kinds (kind, version, app, arguments, workflow) values ('flow', 1, 'shop', '{}', true)"
    )
    rows = await one.connection.fetch(
        """
        insert into holdfast.inbox (
            id, partition_key, partition_bucket, kind, payload, available_at, lease_generation)
        select holdfast.uuidv7(), n::text, 1, case when n % 3 = 0 then 'other' else 'flow' end, '{}',
               now() + interval '1 h', (n % 2)::int
        from generate_series(1, 30) n
        returning id, kind, lease_generation
        """
    )
    await one.connection.execute(
        "insert into holdfast.instances (job_id, parked_generation, waits, waits_since)"
        " select id, 1, '{timer:nap}', now() from holdfast.inbox where kind = 'flow' and lease_generation = 1"
    )
    return sorted((row["id"] for row in rows if row["kind"] == "flow"), reverse=True)


async def pages(one: Session, *limits: int, state: str | None = None, size: int = 5) -> tuple[list[UUID], int]:
    """All instances, page by page, and how many pages it took."""
    found: list[UUID] = []
    before: UUID | None = None
    for number in range(1, 100):
        rows: list[Any] = list(await one.run("views", "instances_page", before, *limits, None, state, size))
        listed = [row["job_id"] for row in rows if row["job_id"] is not None]
        found += listed
        before = listed[-1] if len(listed) == size else next((r["reach"] for r in rows if r["job_id"] is None), None)
        if before is None:
            return found, number
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize(
    "limits", [(MANY, MANY, MANY), (2, MANY, MANY), (MANY, 4, MANY), (MANY, MANY, 3), (2, 3, 2), (1, 1, 1)]
)
async def test_the_pages_together_are_all_instances(one: Session, limits: tuple[int, int, int]) -> None:
    instances = await fill(one)
    assert (await pages(one, *limits))[0] == instances


async def test_one_page_is_enough_for_few(one: Session) -> None:
    instances = await fill(one)
    assert await pages(one, MANY, MANY, MANY, size=50) == (instances, 1)


@pytest.mark.parametrize("limits", [(MANY, MANY, MANY), (2, 3, 2)])
async def test_a_state_is_chosen_from_all(one: Session, limits: tuple[int, int, int]) -> None:
    await fill(one)
    waited = await one.connection.fetch("select job_id from holdfast.instances order by job_id desc")
    assert (await pages(one, *limits, state="sleeping"))[0] == [row["job_id"] for row in waited]
    assert (await pages(one, *limits, state="paused"))[0] == []
