"""Suspects inside an application, where nobody starts a process for them: between other jobs."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.support.stopwatch import look, taken_between
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.worker.claiming import in_place

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.3, "poll": 0.05}


def add_suspects(inbox: Inbox, kind: str, count: int) -> list[UUID]:
    """Suspects from the first moment on, so that nobody takes them for ordinary ones."""
    statement = """
        insert into holdfast.inbox (partition_key, partition_bucket, payload, crashes, attempts)
        select 'k', 1, jsonb_build_object('type', %s::text), 1, 1 from generate_series(1, %s)
        returning id
    """
    return [row["id"] for row in inbox.rows(statement, kind, count)]


async def completed(inbox: Inbox, ids: list[UUID]) -> None:
    await until(lambda: inbox.count(ids, "completed") == len(ids))


async def test_an_embedded_worker_runs_suspects_and_goes_on_with_other_work(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "LEAVE", 0.0, raising=False)

    company = asyncio.Event()
    alone: list[tuple[datetime, datetime]] = []

    @hf.task
    async def long() -> None:
        company.clear()
        began = datetime.now(UTC)
        await company.wait()  # so it ends only if others go on while it runs
        alone.append((began, datetime.now(UTC)))

    @hf.task
    async def quick() -> None:
        company.set()

    suspects = add_suspects(inbox, "long", 3)
    others: list[UUID] = []
    async with hf.worker(**FAST), asyncio.timeout(60):
        while await asyncio.to_thread(inbox.count, suspects, "completed") < len(suspects):
            others.append((await quick.enqueue()).id)
            await asyncio.sleep(0.02)
            look()
        await completed(inbox, others)
    assert len(alone) == 3
    took = max((taken_between(*times) for times in alone), key=lambda taken: taken.own)
    assert took.own < 2.5, f"a second of isolation, and some: {took}"
    rows = inbox.rows("select created_at, finished_at from holdfast.archive where kind = 'quick'")
    slowest = max((taken_between(*row.values()) for row in rows), key=lambda taken: taken.own)
    assert slowest.own < 3, f"a second for what runs to end, a second of isolation, and some: {slowest}"


async def test_a_suspect_in_an_embedded_worker_gets_no_company_from_ordered_keys(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "LEAVE", 0.0, raising=False)
    isolated = False
    ran: list[int] = []
    company: list[int] = []

    @hf.task(ordered=True)
    async def step(number: int) -> None:
        (company if isolated else ran).append(number)
        await asyncio.sleep(0.01)

    @hf.task
    async def suspect() -> None:
        nonlocal isolated
        isolated = True
        await asyncio.sleep(0.5)
        isolated = False

    steps = [(await step.options(key="k").enqueue(number=number)).id for number in range(250)]
    async with hf.worker(**FAST):
        await until(lambda: bool(ran))  # each step is handed over when the one before it has ended
        await completed(inbox, add_suspects(inbox, "suspect", 1))
        assert len(ran) < len(steps)
        await completed(inbox, steps)
    assert company == []
