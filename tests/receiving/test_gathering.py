"""Requests that arrive at the same time share a commit."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from holdfast import Contended, Received, Unreachable
from holdfast.receiving.arrivals import Arrival, Message, Source
from holdfast.receiving.gathering import MOST, Gathering

SOURCE = Source("shop", lambda kind: None)


def arrival(id: str) -> Arrival:
    return SOURCE.read_request(Message(id, b'{"type": "order.paid"}'))


class Store:
    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.turns: list[BaseException | None] = []
        self.go_on = asyncio.Event()

    async def __call__(self, arrivals: Sequence[Arrival]) -> list[Received]:
        self.batches.append([each.message.id for each in arrivals])
        await self.go_on.wait()
        if self.turns and (error := self.turns.pop(0)) is not None:
            raise error
        return [Received(message=each.message.id, job=uuid4(), kind=each.terms.kind) for each in arrivals]


@pytest.fixture
def store() -> Store:
    return Store()


async def gather(store: Store, number: int) -> list[asyncio.Task[Received]]:
    """The first one alone, and the others while it is stored."""
    gathering = Gathering(store)
    tasks = [asyncio.create_task(gathering.keep(arrival("m0")))]
    while not store.batches:
        await asyncio.sleep(0)
    tasks += [asyncio.create_task(gathering.keep(arrival(f"m{n}"))) for n in range(1, number)]
    await asyncio.sleep(0)
    return tasks


async def test_the_first_goes_alone_and_the_others_together(store: Store) -> None:
    tasks = await gather(store, MOST + 3)
    store.go_on.set()
    received = await asyncio.gather(*tasks)
    assert [each.message for each in received] == [f"m{n}" for n in range(MOST + 3)], "each gets its own"
    assert [len(batch) for batch in store.batches] == [1, MOST, 2]


async def test_without_a_database_nobody_waits_a_second_time(store: Store) -> None:
    tasks = await gather(store, 5)
    store.turns = [Unreachable("no")]
    store.go_on.set()
    assert all(isinstance(each, Unreachable) for each in await asyncio.gather(*tasks, return_exceptions=True))
    assert len(store.batches) == 1


async def test_another_error_is_that_of_its_batch(store: Store) -> None:
    tasks = await gather(store, 5)
    store.turns = [Contended("no")]
    store.go_on.set()
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, Contended)
    assert all(isinstance(each, Received) for each in others)


async def test_one_that_is_cancelled_does_not_disturb_the_others(store: Store) -> None:
    tasks = await gather(store, 5)
    tasks[0].cancel()
    tasks[2].cancel()
    store.go_on.set()
    received = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, Received) for each in received] == [False, True, False, True, True]
