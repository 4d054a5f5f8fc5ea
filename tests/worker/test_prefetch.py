"""How many rows are claimed ahead of the hands: by the time that handlers take, and by the size of payloads."""

import asyncio
from uuid import uuid4

import pytest
from tests.support.inbox import Session

from holdfast import Holdfast
from holdfast.loading import served
from holdfast.model.job import Claim
from holdfast.worker.attempts import hands as module
from holdfast.worker.attempts.hands import AHEAD_BYTES, Hands
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases import ledger as marks
from holdfast.worker.settings import WorkerSettings


def claims(number: int, payload: str) -> list[Claim]:
    return [Claim("w1", uuid4(), 1, 1, 1, 5, "t", 1, payload, "default", "k", None, None) for _ in range(number)]


def quick_hands(hf: Holdfast) -> Hands:
    @hf.task
    async def t() -> None:
        pass

    hands = EmbeddedWorker(served(hf), WorkerSettings()).engine._hands
    hands._handler_time = 1e-5
    return hands


async def test_small_payloads_are_bounded_by_their_number(hf: Holdfast) -> None:
    hands = quick_hands(hf)
    hands.take(claims(20, "{}"), marks.now())
    assert hands.ahead == WorkerSettings().prefetch


async def test_large_payloads_are_bounded_by_their_bytes(hf: Holdfast) -> None:
    hands = quick_hands(hf)
    hands.take(claims(20, "{}"), marks.now())
    hands.take(claims(20, "x" * 1024 * 1024), marks.now())
    assert hands.ahead * 1024 * 1024 <= AHEAD_BYTES
    assert hands.ahead >= 16
    for _ in range(100):
        hands.take(claims(20, "{}"), marks.now())
        hands._ready.clear()
    assert hands.ahead == WorkerSettings().prefetch, "it is forgotten in time"


async def test_rows_are_not_handed_back_while_others_start_before_them(
    hf: Holdfast, one: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a backlog, rows are always ready and all hands are always in use: that alone does not make a row late."""
    monkeypatch.setattr(module, "STALE", 1.5)  # the work takes longer, and a busy machine does not stand still so long

    @hf.task
    async def brief() -> None:
        await asyncio.sleep(0.02)

    await brief.enqueue_many([{}] * 3000)
    async with hf.worker(concurrency=20):
        while await one.connection.fetchval("select count(*) from holdfast.inbox"):
            await asyncio.sleep(0.05)
    again = "select count(*) from holdfast.archive where lease_generation > 1"
    assert await one.connection.fetchval(again) == 0
