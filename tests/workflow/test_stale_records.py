"""A worker that has lost its lease records nothing behind the new owner's back."""

import asyncio
import random

from tests.support.gates import gate
from tests.support.inbox import Session
from tests.support.waiting import until_blocked
from tests.workflow.flows import claim, history, start, step

from holdfast.workflow import recording

HAND_OVER = "update holdfast.inbox set status = 'pending', claimed_by = null, available_at = now() where id = $1"
LOCKED = "for no key update skip locked"
WRITTEN = "if tries > 1 then"
"""The statement after the steps are written; they are not committed yet."""


async def pause_records(one: Session, how: str, locked: bool = True) -> None:
    """Let records wait between writing and committing. Not `locked`: the broken form, which only reads the row."""
    text = await one.connection.fetchval("select pg_get_functiondef('holdfast.record_steps'::regproc)")
    assert text.count(LOCKED) == 2 and text.count(WRITTEN) == 1
    text = text.replace(WRITTEN, f"perform {how};\n{WRITTEN}")
    await one.connection.execute(text if locked else text.replace(LOCKED, ""))


async def take_over(two: Session, id: object) -> int:
    """Take the row away and claim it again; how many steps its new owner sees."""
    await two.connection.execute(HAND_OVER, id)
    while not (taken := await claim(two, "w2")):  # a stale record may have it locked for a moment
        pass
    return len((await history(two, taken[0].id)).steps)


async def test_a_guard_that_locks_lets_no_stale_record_through(one: Session, two: Session) -> None:
    await pause_records(one, "pg_sleep(random() * 0.003)")
    chance = random.Random(1)
    await start(one, 200)
    for held in await claim(one, limit=200):

        async def soon(id: object = held.id) -> int:
            await asyncio.sleep(chance.random() * 0.004)
            return await take_over(two, id)

        written, seen = await asyncio.gather(recording.record(one, [(held, [step()])]), soon())
        there = await one.connection.fetchval("select count(*) from holdfast.steps where job_id = $1", held.id)
        assert there == len(written) == seen


async def test_a_new_owner_waits_for_a_record_that_has_begun(one: Session, two: Session, migrated_url: str) -> None:
    await pause_records(one, "pg_advisory_xact_lock(1)")
    await start(one, 1)
    (held,) = await claim(one, limit=1)
    async with gate(migrated_url) as keeper:
        recorded = asyncio.create_task(recording.record(one, [(held, [step()])]))
        await until_blocked(keeper.connection)
        taken = asyncio.create_task(take_over(two, held.id))
        await until_blocked(keeper.connection, 2)
    await recorded
    assert await taken == 1


async def test_a_guard_that_only_reads_lets_a_stale_record_through(
    one: Session, two: Session, migrated_url: str
) -> None:
    """The broken form, so that the tests above can fail."""
    await pause_records(one, "pg_advisory_xact_lock(1)", locked=False)
    await start(one, 1)
    (held,) = await claim(one, limit=1)
    async with gate(migrated_url) as keeper:
        recorded = asyncio.create_task(recording.record(one, [(held, [step()])]))
        await until_blocked(keeper.connection)
        assert await take_over(two, held.id) == 0
    await recorded
    assert len((await history(one, held.id)).steps) == 1, "a step that its new owner has not seen"
