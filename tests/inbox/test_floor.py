"""The floor against a real server: late commits, rollbacks, long transactions, several workers.

The published bound is 0.3 s from the commit (or from the time it was delayed to) while a worker finds work, and one
poll while it finds none. It follows from two facts: a worker rescans at least every 0.2 s while it works, and with
every look while it does not; and a committed row is claimed by the first rescan that begins after the commit, or, when
its transaction had been set aside, by the one right after, which an idle worker makes at once. The second fact is
asserted exactly, by counting rescans; the time only with a factor that forgives a loaded machine of two cores.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio
from tests.support.inbox import JOB, Session, move_clock
from tests.support.pooler import database_at, direct

from holdfast.db.database import Connection
from holdfast.db.link import Link
from holdfast.errors import Unreachable
from holdfast.inbox import claim as claim_module
from holdfast.inbox.about import about
from holdfast.inbox.claim import FreeCourse, Known
from holdfast.inbox.ending import write
from holdfast.model.outcome import Completed

POLL = 0.01
BOUND = 0.3 + POLL
FORGIVING = 10
"""Two cores are shared by a server, nine producers and workers, and whoever else is testing."""


@dataclass
class Call:
    """One call of claim()."""

    began: float
    ended: float
    rescan: bool


@dataclass
class Witness:
    """What happened, by this process's monotonic clock."""

    ready: dict[UUID, float] = field(default_factory=dict)
    """When a committed row could first be claimed."""
    dropped: set[UUID] = field(default_factory=set)
    """Rows of rolled-back transactions and savepoints."""
    taken: list[tuple[UUID, Call]] = field(default_factory=list)
    calls: list[list[Call]] = field(default_factory=list)
    producing: bool = True


async def produce(connection: Connection, seed: int, until: float, least: int, witness: Witness) -> None:
    """Transactions of all lengths; some enqueue early and commit late, some roll back, some delay their rows."""
    dice = random.Random(seed)

    async def enqueue(rows: dict[UUID, float]) -> None:
        delay = dice.choice([0.0, 0.0, 0.0, 0.05, 0.4])
        id = await connection.fetchval(
            "select holdfast.enqueue('job', priority => $1, delay => make_interval(secs => $2))",
            dice.randrange(4),
            delay,
        )
        rows[id] = time.monotonic() + delay

    while time.monotonic() < until or len(witness.ready) < least:
        rows: dict[UUID, float] = {}
        transaction = connection.transaction()
        await transaction.start()
        await enqueue(rows)
        await asyncio.sleep(dice.choice([0, 0, 0.005, 0.03, 0.1, 0.3, 0.8]))
        if dice.random() < 0.3:
            inner: dict[UUID, float] = {}
            savepoint = connection.transaction()
            await savepoint.start()
            await enqueue(inner)
            if dice.random() < 0.5:
                await savepoint.rollback()
                witness.dropped |= inner.keys()
            else:
                await savepoint.commit()
                rows |= inner
        if dice.random() < 0.3:
            await enqueue(rows)
        if dice.random() < 0.2:
            await transaction.rollback()
            witness.dropped |= rows.keys()
        else:
            await transaction.commit()
            committed = time.monotonic()
            witness.ready.update({id: max(due, committed) for id, due in rows.items()})
        await asyncio.sleep(dice.choice([0, 0.002, 0.02]))


async def consume(url: str, name: str, witness: Witness, rescanning: bool) -> None:
    link = Link(database_at(url), name)
    claimer = FreeCourse(link, name, ["default"], Known(JOB), 90.0)
    claimer.rescanning = rescanning
    calls: list[Call] = []
    witness.calls.append(calls)
    left = 60
    while left:
        before = claimer.rescans
        began = time.monotonic()
        batch = await claimer.claim(1000)
        call = Call(began, time.monotonic(), claimer.rescans > before)
        calls.append(call)
        witness.taken.extend((claim.id, call) for claim in batch.claims)
        if batch.claims:
            await write(link, [(claim, Completed()) for claim in batch.claims])
        if not witness.producing and began > max(witness.ready.values(), default=0.0):
            left -= 1
        await asyncio.sleep(POLL)
    await link.close()


async def run(url: str, seed: int, rescanning: bool, seconds: float = 3.0, least: int = 0) -> Witness:
    """For so many seconds, and until so many rows were committed, as a busy machine may need longer for them."""
    witness = Witness()
    connections = [await asyncpg.connect(direct(url)) for _ in range(6)]
    workers = [asyncio.create_task(consume(url, f"w{n}", witness, rescanning)) for n in range(3)]
    until = time.monotonic() + seconds
    await asyncio.gather(*(produce(c, seed * 100 + n, until, least, witness) for n, c in enumerate(connections)))
    witness.producing = False
    await asyncio.gather(*workers)
    for connection in connections:
        await connection.close()
    return witness


def check(witness: Witness) -> None:
    """Every committed row was claimed, once, and in time; no other was.

    In time: a machine that stood still did so between the beginnings of two calls of a worker, which are measured, too.
    """
    taken = dict(witness.taken)
    assert taken.keys() == witness.ready.keys(), f"{len(witness.ready.keys() - taken.keys())} were never claimed"
    assert set(Counter(id for id, _ in witness.taken).values()) <= {1}
    beginnings = [pairwise([call.began for call in calls]) for calls in witness.calls]
    stood_still = max((after - before for pairs in beginnings for before, after in pairs), default=0.0)
    for id, call in taken.items():
        ready = witness.ready[id]
        for calls in witness.calls:
            missed = [c for c in calls if c.rescan and c.began >= ready and c.ended < call.began]
            assert len(missed) <= 1, f"{len(missed)} rescans of one worker passed {id} over"
        assert call.ended - ready < BOUND * FORGIVING + 3 * stood_still


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_committed_row_is_claimed_in_time_and_none_twice(migrated_url: str, seed: int) -> None:
    witness = await run(migrated_url, seed, rescanning=True, least=51)
    assert len(witness.ready) > 50
    assert witness.dropped
    check(witness)


async def test_without_the_rescan_that_fails(migrated_url: str) -> None:
    with pytest.raises(AssertionError, match="never claimed"):
        check(await run(migrated_url, 1, rescanning=False, seconds=1.5))


# Ways to break the rule, one by one. These force each rescan instead of waiting for its time.


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    database = database_at(migrated_url)
    connection = await database.connect("one")
    yield Session(database, connection)
    await connection.close()


@pytest_asyncio.fixture
async def producer(migrated_url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(direct(migrated_url))
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def claimer(migrated_url: str) -> AsyncIterator[FreeCourse]:
    link = Link(database_at(migrated_url), "claimer")
    yield FreeCourse(link, "w1", ["a", "b"], Known(JOB), 90.0)
    await link.close()


async def enqueue(connection: Connection, queue: str = "a", priority: int = 1) -> UUID:
    id = await connection.fetchval("select holdfast.enqueue('job', queue => $1, priority => $2)", queue, priority)
    assert isinstance(id, UUID)
    return id


async def claimed(claimer: FreeCourse, limit: int = 100, rescan: bool = False) -> set[UUID]:
    claimer._rescan_at = 0.0 if rescan else max(claimer._rescan_at, time.monotonic() + 60)
    return {claim.id for claim in (await claimer.claim(limit)).claims}


async def settle(claimer: FreeCourse) -> None:
    """The first rescan knows nothing of the time before it; the second does."""
    for _ in range(2):
        await claimed(claimer, rescan=True)


async def test_a_late_commit_is_behind_the_hint_and_found_by_the_next_rescan(
    one: Session, producer: Connection, claimer: FreeCourse
) -> None:
    await settle(claimer)
    async with producer.transaction():
        late = await enqueue(producer)
        early = await enqueue(one.connection)
        assert await claimed(claimer) == {early}
    for _ in range(5):
        assert await claimed(claimer) == set()
    assert await claimed(claimer, rescan=True) == {late}


async def test_a_lone_transaction_in_a_quiet_database(producer: Connection, claimer: FreeCourse) -> None:
    """A snapshot's xmax is one past the newest xid that has *ended*: a newer one that runs is not in it at all."""
    await settle(claimer)
    async with producer.transaction():
        late = await enqueue(producer)
        enough = await producer.fetchval("select available_at + interval '0.5 seconds' from holdfast.inbox")
        while claimer.floor.starts(rescan=False)[0][0] < enough:
            assert await claimed(claimer, rescan=True) == set()
    assert late in await claimed(claimer, rescan=True) | await claimed(claimer, rescan=True)


async def test_an_ordinary_role_reads_which_xids_run(one: Session, producer: Connection) -> None:
    async with producer.transaction():
        xid = await producer.fetchval("select pg_current_xact_id()::text::bigint % (2 ^ 32)::bigint")
        transaction = one.connection.transaction()
        await transaction.start()
        await one.connection.execute("create role holdfast_test_plain")
        await one.connection.execute("grant usage on schema holdfast to holdfast_test_plain")
        await one.connection.execute("grant select, update on all tables in schema holdfast to holdfast_test_plain")
        await one.connection.execute("grant usage on all sequences in schema holdfast to holdfast_test_plain")
        await one.connection.execute("set local role holdfast_test_plain")
        rows = await one.claim_rows("w1", 1, rescan=True)
        await transaction.rollback()
        assert xid in about(rows[-1]["about"]).running


async def test_a_transaction_set_aside_is_found_by_the_claim_that_sees_it_end(
    one: Session, producer: Connection, claimer: FreeCourse
) -> None:
    await settle(claimer)
    async with producer.transaction():
        late = await enqueue(producer)
        await claimed(claimer, rescan=True)
        (opened,) = claimer.floor._open.values()
        while not opened.aside:
            assert await claimed(claimer, rescan=True) == set()
        bound = claimer.floor.starts(rescan=True)
        assert all(start > (opened.bound, 0) for start in bound)
    before = claimer.rescans
    assert await claimed(claimer, rescan=True) == {late}
    assert claimer.rescans == before + 2, "one look sees that it has ended, the next begins where it may have enqueued"


async def test_a_claim_looks_twice_at_most(
    producer: Connection, claimer: FreeCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions that end all the time must not keep an idle worker busy."""
    await settle(claimer)
    monkeypatch.setattr(claimer.floor, "observed", lambda *seen: True)
    before = claimer.rescans
    assert await claimed(claimer, rescan=True) == set()
    assert claimer.rescans == before + 2


async def test_a_paused_queue_loses_nothing(one: Session, producer: Connection, claimer: FreeCourse) -> None:
    await settle(claimer)
    async with producer.transaction():
        late = await enqueue(producer)
        await one.run("queues", "pause", "a", "ann")
        during = await enqueue(one.connection)
        assert await claimed(claimer, rescan=True) == set()
    assert await claimed(claimer, rescan=True) == set()
    await one.run("queues", "resume", "a", "ann")
    assert await claimed(claimer) == {late, during}


async def test_a_late_commit_during_and_after_a_pause(one: Session, producer: Connection, claimer: FreeCourse) -> None:
    await one.run("queues", "pause", "a", "ann")
    await settle(claimer)
    async with producer.transaction():
        late = await enqueue(producer)
        await one.run("queues", "resume", "a", "ann")
        after = await enqueue(one.connection)
        assert await claimed(claimer) == {after}
    assert await claimed(claimer, rescan=True) == {late}


async def test_a_full_batch_before_a_later_lane_moves_nothing_there(
    one: Session, producer: Connection, claimer: FreeCourse
) -> None:
    await settle(claimer)
    async with producer.transaction():
        late = await enqueue(producer, "b", priority=3)
        other = await enqueue(one.connection, "b", priority=3)
        assert await claimed(claimer, rescan=True) == {other}
    first = [await enqueue(one.connection, "a", priority=0) for _ in range(6)]
    for n in range(3):
        assert await claimed(claimer, limit=2, rescan=True) == set(first[2 * n : 2 * n + 2])
    assert await claimed(claimer, limit=2, rescan=True) == {late}


async def test_rows_of_one_instant_are_not_passed_by_a_full_batch(one: Session, claimer: FreeCourse) -> None:
    ids = await one.add(25, queue="a")
    found: set[UUID] = set()
    for _ in range(5):
        batch = await claimed(claimer, limit=5)
        assert len(batch) == 5
        found |= batch
    assert found == set(ids)


async def test_a_clock_set_back(one: Session, claimer: FreeCourse) -> None:
    await move_clock(one.connection, 3600)
    assert await claimed(claimer, rescan=True) == set()
    ids = await one.add(2, queue="a", due=-3600.5)
    await move_clock(one.connection, 0)
    assert await claimed(claimer, rescan=True) == set(ids)


@pytest.mark.direct
async def test_a_reconnect_starts_anew(one: Session, claimer: FreeCourse) -> None:
    await settle(claimer)
    (behind,) = await one.add(queue="a", due=-3600)
    assert await claimed(claimer, rescan=True) == set()
    pid = await one.connection.fetchval("select pid from pg_stat_activity where application_name = 'holdfast claimer'")
    assert await one.connection.fetchval("select pg_terminate_backend($1, 10000)", pid)
    with suppress(Unreachable):  # the first call may meet the end of the session
        assert await claimed(claimer) == {behind}
        return
    assert await claimed(claimer) == {behind}


async def test_a_row_written_behind_by_hand_waits_for_the_patrol(
    one: Session, claimer: FreeCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settle(claimer)
    (behind,) = await one.add(queue="b", priority=2, due=-3600)
    for _ in range(3):
        assert await claimed(claimer, rescan=True) == set()
    monkeypatch.setattr(claim_module, "PATROL_EVERY", 0.0)
    claimer._patrol._next_at = 0.0
    assert await claimed(claimer) == {behind}


async def test_a_row_that_was_locked_when_the_scan_passed_waits_for_the_patrol(
    one: Session, producer: Connection, claimer: FreeCourse
) -> None:
    (id,) = await one.add(queue="a")
    async with producer.transaction():
        await producer.execute("select from holdfast.inbox for update")
        assert await claimed(claimer, rescan=True) == set()
        claimer._patrol._next_at = 0.0
        assert await claimed(claimer, rescan=True) == set()
    claimer._patrol._next_at = 0.0
    assert await claimed(claimer) == {id}


async def test_the_patrol_walks_in_chunks_and_passes_what_it_cannot_run(
    one: Session, claimer: FreeCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_module, "PATROL_CHUNK", 10)
    await settle(claimer)
    await one.add(35, queue="a", kind="other", due=-7200)
    await one.add(2, queue="a", version=9, due=-7000)
    await one.add(2, queue="a", attempts=5, due=-7000)
    await one.add(2, queue="a", crashes=1, due=-7000)
    owned = await one.add(2, queue="a", due=-7000)
    await one.connection.execute("update holdfast.inbox set owned = true where id = any($1::uuid[])", owned)
    (behind,) = await one.add(queue="a", due=-3600)
    claimer._patrol._next_at = 0.0
    walks = 0
    while not (found := await claimed(claimer)):
        walks += 1
        assert walks < 10
    assert found == {behind}
    assert walks == 4
