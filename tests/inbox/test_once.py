"""once(): done, busy, first, and who may enter."""

import asyncio

import pytest
from tests.support.inbox import Session, move_clock, until_waiting

from holdfast.errors import LeaseLost
from holdfast.inbox.once import Entry, enter, finish
from holdfast.model.job import Claim


async def claim_one(session: Session, worker: str = "w1", lease: float = 90.0) -> Claim:
    await session.add()
    (claim,) = await session.claim(worker, limit=1, lease=lease)
    return claim


async def test_first_then_done(one: Session) -> None:
    claim = await claim_one(one)
    assert await enter(one, "mail", claim.id, claim.fence) is Entry.FIRST
    await finish(one, "mail", claim.fence)
    assert await enter(one, "mail", claim.id, claim.fence) is Entry.DONE
    other = await claim_one(one)
    assert await enter(one, "mail", other.id, other.fence) is Entry.DONE
    assert await enter(one, "mail 2", other.id, other.fence) is Entry.FIRST


async def test_another_live_attempt_inside_means_busy(one: Session) -> None:
    inside, outside = await claim_one(one, "w1", lease=30), await claim_one(one, "w2", lease=600)
    assert await enter(one, "mail", inside.id, inside.fence) is Entry.FIRST
    assert await enter(one, "mail", outside.id, outside.fence) is Entry.BUSY
    await move_clock(one.connection, 31)
    assert await enter(one, "mail", outside.id, outside.fence) is Entry.FIRST
    with pytest.raises(LeaseLost):
        await finish(one, "mail", inside.fence)
    assert await enter(one, "mail", inside.id, inside.fence) is Entry.BUSY
    await finish(one, "mail", outside.fence)
    assert await enter(one, "mail", inside.id, inside.fence) is Entry.DONE


async def test_the_next_attempt_of_the_same_job_enters(one: Session) -> None:
    claim = await claim_one(one)
    assert await enter(one, "mail", claim.id, claim.fence) is Entry.FIRST
    await one.inbox("hand_back", [claim.id], [claim.generation], "w1")
    (again,) = await one.claim("w2")
    assert await enter(one, "mail", again.id, again.fence) is Entry.FIRST
    with pytest.raises(LeaseLost):
        await finish(one, "mail", claim.fence)


async def test_an_older_claim_does_not_enter_after_a_newer_one(one: Session) -> None:
    """The newer one has ended without its marker; whatever it did, an older fence must not do it again unseen."""
    older, newer = await claim_one(one, "w1"), await claim_one(one, "w2")
    assert older.fence < newer.fence
    assert await enter(one, "mail", newer.id, newer.fence) is Entry.FIRST
    await one.inbox("hand_back", [newer.id], [newer.generation], "w2")
    assert await enter(one, "mail", older.id, older.fence) is Entry.BUSY
    assert await one.connection.fetchval("select fence from holdfast.once") == newer.fence
    (again,) = await one.claim("w2")
    assert await enter(one, "mail", again.id, again.fence) is Entry.FIRST


async def test_the_same_attempt_may_try_its_block_anew(one: Session) -> None:
    claim = await claim_one(one)
    for _ in range(3):
        assert await enter(one, "mail", claim.id, claim.fence) is Entry.FIRST
    await finish(one, "mail", claim.fence)


async def test_an_attempt_that_lost_its_job_does_not_enter(one: Session) -> None:
    claim = await claim_one(one)
    await one.inbox("hand_back", [claim.id], [claim.generation], "w1")
    with pytest.raises(LeaseLost):
        await enter(one, "mail", claim.id, claim.fence)
    await one.claim("w2")
    with pytest.raises(LeaseLost):
        await enter(one, "mail", claim.id, claim.fence)
    assert await one.connection.fetchval("select count(*) from holdfast.once") == 0


async def test_a_stale_attempt_whose_effect_happened_still_leaves_its_marker(one: Session) -> None:
    claim = await claim_one(one)
    await enter(one, "mail", claim.id, claim.fence)
    await one.inbox("hand_back", [claim.id], [claim.generation], "w1")
    (again,) = await one.claim("w2")
    await finish(one, "mail", claim.fence)
    assert await enter(one, "mail", again.id, again.fence) is Entry.DONE


async def test_of_two_at_once_one_is_first(one: Session, two: Session) -> None:
    a, b = await claim_one(one, "w1"), await claim_one(one, "w2")
    async with one.connection.transaction():
        assert await enter(one, "mail", a.id, a.fence) is Entry.FIRST
        waiting = asyncio.create_task(enter(two, "mail", b.id, b.fence))
        await until_waiting(one.connection, two.pid)
    assert await waiting is Entry.BUSY


async def test_an_entry_that_rolls_back_was_none(one: Session, two: Session) -> None:
    a, b = await claim_one(one, "w1"), await claim_one(one, "w2")
    transaction = one.connection.transaction()
    await transaction.start()
    await enter(one, "mail", a.id, a.fence)
    waiting = asyncio.create_task(enter(two, "mail", b.id, b.fence))
    await until_waiting(one.connection, two.pid)
    await transaction.rollback()
    assert await waiting is Entry.FIRST
