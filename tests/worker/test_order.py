"""Ordered and owned queues under real workers: who runs when, and where."""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.support.pooler import direct
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Context, Holdfast, Task, TxContext
from holdfast.inbox import guarded
from holdfast.loading import served
from holdfast.model.job import Claim
from holdfast.model.outcome import Completed
from holdfast.worker.claiming import loops as claiming
from holdfast.worker.engine import Engine
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.settings import WorkerSettings

FAST: dict[str, Any] = {"lease": 5, "housekeeping": 0.3, "poll": 0.05, "heartbeat": 0.3}


@dataclass
class Witness:
    """What ran, in the order in which it happened."""

    begun: dict[str, list[int]] = field(default_factory=dict)
    at_work: dict[str, int] = field(default_factory=dict)
    ended: dict[str, list[int]] = field(default_factory=dict)
    places: dict[str, set[str]] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)

    async def run(self, key: str, number: int, seconds: float) -> None:
        if self.at_work.get(key) is not None:
            self.overlaps.append(f"{key}: {number} began while {self.at_work[key]} ran")
        self.at_work[key] = number
        self.begun.setdefault(key, []).append(number)
        try:
            await asyncio.sleep(seconds)
        finally:
            del self.at_work[key]

    def end(self, key: str, number: int) -> None:
        self.ended.setdefault(key, []).append(number)


@pytest.fixture
def witness() -> Witness:
    return Witness()


async def fill(task: Task[..., Any], keys: int, jobs: int) -> list[UUID]:
    """Number n of every key before number n + 1 of any: interleaved, each statement a commit."""
    made = []
    for number in range(jobs):
        for key in range(keys):
            made.append((await task.options(key=f"k{key}").enqueue(number=number)).id)
    return made


async def all_ended(inbox: Inbox, jobs: list[UUID]) -> None:
    await until(lambda: inbox.count(jobs, "completed") == len(jobs), seconds=40)


async def test_keys_run_in_order_through_failures_on_several_workers(
    hf: Holdfast, inbox: Inbox, witness: Witness
) -> None:
    dice = random.Random(7)

    @hf.task(ordered=True, max_attempts=20)
    async def step(ctx: Context, number: int) -> None:
        await witness.run(ctx.key, number, dice.choice([0, 0, 0.002, 0.01]))
        if dice.random() < 0.1:
            raise RuntimeError("for once")
        witness.end(ctx.key, number)

    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(hf.worker(concurrency=5, **FAST))
        jobs = await fill(step, keys=7, jobs=25)
        await all_ended(inbox, jobs)
    assert witness.overlaps == []
    assert witness.ended == {f"k{key}": list(range(25)) for key in range(7)}


async def test_a_backlog_of_neighbours_is_handed_over(
    hf: Holdfast, inbox: Inbox, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All jobs of a key next to each other: nearly every one is passed by the floor and found through its key."""

    @hf.task(ordered=True)
    async def step(ctx: Context, number: int) -> None:
        await witness.run(ctx.key, number, 0)
        witness.end(ctx.key, number)

    monkeypatch.setattr(guarded, "PATROL_EVERY", 3600.0)
    made = [await step.options(key=f"k{key}").enqueue_many([{"number": n} for n in range(100)]) for key in range(20)]
    jobs = [job.id for batch in made for job in batch]
    async with hf.worker(concurrency=20, **FAST | {"housekeeping": 3600}):
        await all_ended(inbox, jobs)
    assert witness.overlaps == []
    assert witness.ended == {f"k{key}": list(range(100)) for key in range(20)}
    assert inbox.one("select count(*) from holdfast.archive where lease_generation > 1") == 0


async def test_transactions_keep_order(hf: Holdfast, inbox: Inbox) -> None:
    inbox.rows("create table ledger (place serial, key text, number int)")

    @hf.task(ordered=True)
    async def book(ctx: TxContext, number: int) -> None:
        await ctx.tx.execute("insert into ledger (key, number) values ($1, $2)", ctx.key, number)

    jobs = await fill(book, keys=4, jobs=15)
    async with hf.worker(concurrency=8, **FAST):
        await all_ended(inbox, jobs)
    rows = inbox.rows("select key, array_agg(number order by place) as numbers from ledger group by key")
    assert {row["key"]: row["numbers"] for row in rows} == {f"k{key}": list(range(15)) for key in range(4)}


async def test_without_order_there_is_none(hf: Holdfast, inbox: Inbox, witness: Witness) -> None:
    @hf.task
    async def step(ctx: Context, number: int) -> None:
        await witness.run(ctx.key, number, 0.05 if number == 0 else 0)
        witness.end(ctx.key, number)

    jobs = [job.id for job in await step.options(key="k").enqueue_many([{"number": n} for n in range(5)])]
    async with hf.worker(concurrency=5, **FAST):
        await all_ended(inbox, jobs)
    assert witness.overlaps != []
    assert witness.ended["k"][0] != 0


async def test_a_worker_that_drains_leaves_its_keys_to_others(hf: Holdfast, inbox: Inbox, witness: Witness) -> None:
    some = asyncio.Event()

    @hf.task(ordered=True)
    async def step(ctx: Context, number: int) -> None:
        await witness.run(ctx.key, number, 0.01)
        witness.end(ctx.key, number)
        if number > 5:
            some.set()

    jobs = await fill(step, keys=3, jobs=40)
    async with hf.worker(concurrency=5, **FAST):
        await some.wait()
    done = sum(map(len, witness.ended.values()))
    assert done < len(jobs)
    async with hf.worker(concurrency=5, **FAST):
        await all_ended(inbox, jobs)
    assert witness.overlaps == []
    assert witness.ended == {f"k{key}": list(range(40)) for key in range(3)}
    assert inbox.one("select count(*) from holdfast.archive where attempts > 1") == 0


async def test_a_hot_key_does_not_stop_the_others(hf: Holdfast, inbox: Inbox, witness: Witness) -> None:
    @hf.task(ordered=True)
    async def step(ctx: Context, number: int) -> None:
        if ctx.key == "hot":
            await asyncio.sleep(0.05)
        witness.end(ctx.key, number)

    hot = [job.id for job in await step.options(key="hot").enqueue_many([{"number": n} for n in range(400)])]
    jobs = await fill(step, keys=20, jobs=5)
    async with hf.worker(concurrency=4, drain=0, **FAST):
        await all_ended(inbox, jobs)
        assert inbox.count(hot, "completed") < len(hot) // 2
    assert witness.ended["hot"] == list(range(len(witness.ended["hot"])))


async def test_the_rows_of_one_key_run_on_one_worker_while_the_pool_is_steady(
    hf: Holdfast, inbox: Inbox, witness: Witness
) -> None:
    await hf.set_queue("default", ordered=True, owned=True)

    async def app(place: str) -> Holdfast:
        own = Holdfast(inbox.url)

        @own.task(name="step")
        async def step(ctx: Context, number: int) -> None:
            await witness.run(ctx.key, number, 0)
            witness.places.setdefault(ctx.key, set()).add(place)
            witness.end(ctx.key, number)

        return own

    @hf.task(name="step")
    async def step(number: int) -> None: ...

    apps = [await app(f"w{n}") for n in range(3)]
    async with AsyncExitStack() as stack:
        workers = []
        for own in apps:
            stack.push_async_callback(own.close)
            workers.append(await stack.enter_async_context(own.worker(concurrency=5, **FAST)))
        await all_ended(inbox, await fill(step, keys=40, jobs=1))
        # All are there, and each has looked at the registry again since: the shares are as they stay.
        shares = [worker.engine.claiming.shares for worker in workers]
        before = [share.refreshes for share in shares]
        await until(lambda: all(share.refreshes > n for share, n in zip(shares, before, strict=True)))
        witness.places.clear()
        jobs = await fill(step, keys=40, jobs=6)
        await all_ended(inbox, jobs)
    assert witness.overlaps == []
    assert {len(places) for places in witness.places.values()} == {1}
    assert len(set.union(*witness.places.values())) == 3
    assert all(numbers == [0, *range(6)] for numbers in witness.ended.values())


async def test_a_claim_leaves_room_for_what_keys_may_hand_over_meanwhile(hf: Holdfast) -> None:
    @hf.task(ordered=True)
    async def step() -> None: ...

    ledger = Ledger()
    engine = Engine(served(hf), WorkerSettings(concurrency=100), ledger, "w1")
    while ledger.room > 30:  # endings that are not written yet
        ledger.hold(uuid4(), 1, 0)
    assert engine.claiming._want() == 30
    for number in range(20):
        key = f"key {number}"
        engine.claiming.vacate(Claim("w1", uuid4(), 1, 1, 1, 5, "step", 1, "{}", "default", key, None, None))
    assert engine.claiming._want() == 10


async def test_room_is_booked_once_while_keys_hand_over(hf: Holdfast, inbox: Inbox) -> None:
    """What a hand-over under way may bring is no room for a claim, nor the other way round."""

    @hf.task(ordered=True)
    async def step() -> None: ...

    ledger = Ledger()
    engine = Engine(served(hf), WorkerSettings(concurrency=100), ledger, "w1")
    guarded = engine.claimer._guarded
    loops = engine.claiming
    while ledger.room > 30:  # endings that are not written yet
        ledger.hold(uuid4(), 1, 0)
    for number in range(20):
        key = f"key {number}"
        guarded._passed["default", key] = None
        loops.vacate(Claim("w1", uuid4(), 1, 1, 1, 5, "step", 1, "{}", "default", key, None, None))
    with psycopg.connect(direct(inbox.url)) as holder:
        holder.execute("lock table holdfast.inbox in access exclusive mode")
        handing_over = asyncio.create_task(loops._hand_over(loops._room))
        async with asyncio.timeout(25):
            while guarded.vacated:
                await asyncio.sleep(0.01)
        assert loops._want() == 10
        claim = asyncio.create_task(loops._claim(10))
        await asyncio.sleep(0)
        assert loops._room == 0
    await asyncio.gather(handing_over, claim)
    assert loops._room == 30
    for link in (engine._claim_link, engine._key_link):
        await link.close()


async def test_a_worker_polls_often_after_a_hand_over_only_if_that_lacked_room(hf: Holdfast, inbox: Inbox) -> None:
    """While all keys have room, each hand-over finds the next rows by itself: polls would find nothing."""

    @hf.task(ordered=True)
    async def step() -> None: ...

    engine = Engine(served(hf), WorkerSettings(), Ledger(), "w1")
    loops = engine.claiming
    loops._unseen = False
    for room, nap in ((10, loops._settings.poll_max), (9, loops._settings.poll_min)):
        for number in range(10):
            key = f"key {number}"
            loops.vacate(Claim("w1", uuid4(), 1, 1, 1, 5, "step", 1, "{}", "default", key, None, None))
        await loops._hand_over(room)
        assert (engine.claimer.vacated, loops._nap(reachable=True)) == (0, nap)
    await engine._key_link.close()


async def test_without_wake_ups_an_idle_worker_with_ordered_tasks_polls_less_and_less(
    hf: Holdfast, inbox: Inbox
) -> None:
    """It has two courses. The second look, at the other course, is not a sign of work."""

    @hf.task(ordered=True)
    async def step() -> None: ...

    async with hf.worker(**FAST | {"poll": 0.1, "notify": False}) as worker:
        await until(lambda: worker.engine.claiming._pause == 0.1)


async def test_room_that_the_completer_makes_is_used_at_once(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "ROOM_AGAIN", 3600.0)

    @hf.task
    async def step() -> None: ...

    async with hf.worker(**FAST | {"lease": 90}) as worker:
        engine = worker.engine
        while engine.ledger.room > 1:  # endings that are not written yet
            engine.ledger.hold(uuid4(), 1, marks.now())
        last = Claim("w1", uuid4(), 1, 1, 1, 5, "step", 1, "{}", "default", "k", None, None)
        last.slot = engine.ledger.hold(last.id, 1, marks.now())
        await until(lambda: engine.ledger.post().state == marks.BUSY)
        job = (await step.enqueue()).id
        engine._completer.add(last, Completed())
        await until(lambda: inbox.status(job) == "completed")
