"""Questions of instances: all are answered, in few trips, two at a time."""

import asyncio
from typing import Any, cast

import pytest
from tests.support.claims import claim
from tests.support.waiting import until

from holdfast.db.link import Link
from holdfast.errors import LeaseLost
from holdfast.model.job import Claim
from holdfast.model.occurrences import Occurrences, Part
from holdfast.worker.flows.batching import Batches
from holdfast.worker.leases.ledger import Ledger, now
from holdfast.workflow.recording import Locked

LINKS = [cast(Link, name) for name in ("one", "two")]


class Echo(Batches[int, int]):
    """Answers each question with itself, when the gate is open."""

    def __init__(self, ledger: Ledger, most: int) -> None:
        super().__init__(Part.WORKFLOWS, Occurrences(), ledger, 90.0, LINKS, most)
        self.trips: list[tuple[Any, list[int]]] = []
        self.gate = asyncio.Event()
        self.locked: set[int] = set()

    async def _trip(self, link: Link, batch: list[tuple[Claim, int]]) -> list[int | Locked | None]:
        self.trips.append((link, [question for _, question in batch]))
        await self.gate.wait()
        return [Locked.NOW if question in self.locked else question for _, question in batch]


async def test_while_one_half_is_on_its_way_the_other_is_sent() -> None:
    ledger = Ledger()
    batches = Echo(ledger, most=5)
    answers = [batches.ask(claim(ledger), n) for n in range(13)]
    await until(lambda: len(batches.trips) == 2)
    assert batches.trips == [("two", [0, 1, 2, 3, 4]), ("one", [5, 6, 7, 8, 9])], "a third waits for one of them"
    batches.gate.set()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*answers) == list(range(13))
    assert [len(asked) for _, asked in batches.trips] == [5, 5, 3]
    await batches.close()


async def test_none_is_forgotten_at_any_pace() -> None:
    ledger = Ledger()
    for most in (1, 2, 7):
        batches = Echo(ledger, most)
        batches.gate.set()
        answers: list[asyncio.Future[int]] = []
        for n in range(60):
            answers.append(batches.ask(claim(ledger), n))
            for _ in range(n % 4):
                await asyncio.sleep(0)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*answers) == list(range(60))
        assert max(len(asked) for _, asked in batches.trips) <= most
        await batches.close()


async def test_a_locked_row_keeps_no_other_waiting() -> None:
    ledger = Ledger()
    batches = Echo(ledger, most=5)
    batches.locked = {1, 7}
    batches.gate.set()
    answers = [batches.ask(claim(ledger), n) for n in range(12)]
    async with asyncio.timeout(30):
        free = [answer for n, answer in enumerate(answers) if n not in batches.locked]
        assert await asyncio.gather(*free) == [n for n in range(12) if n not in batches.locked]
        assert await batches.ask(claim(ledger), 99) == 99, "both links are free"
    assert not answers[1].done() and not answers[7].done()
    batches.locked.clear()
    async with asyncio.timeout(30):
        assert [await answers[1], await answers[7]] == [1, 7]
    assert batches._locked == {}
    await batches.close()


async def test_a_locked_row_whose_lease_is_over_is_lost() -> None:
    ledger = Ledger()
    batches = Echo(ledger, most=5)
    batches.locked = {1}
    batches.gate.set()
    held = claim(ledger)
    answer = batches.ask(held, 1)
    await until(lambda: len(batches.trips) > 1)
    for row in list(ledger.held()):
        ledger.renewed(row, now() - int(100e9))
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(30):
            await answer
    assert batches._locked == {}
    await batches.close()
