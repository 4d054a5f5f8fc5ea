"""Cancel and revive, also with the rows in flight."""

import asyncio
import json

import pytest
from tests.support.inbox import Session, move_clock, until_waiting

from holdfast.inbox import ending
from holdfast.model.outcome import AttemptFailed, Completed
from holdfast.model.report import Report


async def test_cancelling_a_waiting_job_ends_it_at_once(one: Session) -> None:
    id = await one.connection.fetchval("select holdfast.enqueue('job', delay => '1 hour', idempotency_key => 'k')")
    (row,) = await one.inbox("cancel", id, "not needed")
    assert row["status"] == "cancelled"
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["last_error"], kept["attempts"]) == ("cancelled", "not needed", 0)
    assert kept["cancel_requested_at"] is not None
    assert await one.connection.fetchval("select expires_at is not null from holdfast.dedupe")
    assert await one.inbox("cancel", id, "again") == []


async def test_cancelling_a_running_job_tells_it_once(one: Session) -> None:
    (id,) = await one.add()
    await one.claim()
    (row,) = await one.inbox("cancel", id, "enough")
    assert row["status"] == "processing"
    first = (await one.row(id))["cancel_requested_at"]
    assert first is not None
    await one.inbox("cancel", id, "enough")
    after = await one.row(id)
    assert (after["cancel_requested_at"], after["status"], after["claimed_by"]) == (first, "processing", "w1")


async def test_cancelling_a_dead_letter_leaves_it(one: Session) -> None:
    (id,) = await one.add()
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter'")
    before = await one.row(id)
    (row,) = await one.inbox("cancel", id, "enough")
    assert row["status"] == "dead_letter"
    assert await one.row(id) == before


@pytest.mark.parametrize("first", ["complete", "cancel"])
async def test_cancel_against_complete(one: Session, two: Session, first: str) -> None:
    """Whichever comes second waits, looks again, and reports the truth."""
    (id,) = await one.add()
    (claim,) = await one.claim("w1")
    async with two.connection.transaction():
        if first == "complete":
            await ending.write(two, [(claim, Completed())])
            waiting: asyncio.Task[object] = asyncio.create_task(one.inbox("cancel", id, "enough"))
        else:
            (told,) = await two.inbox("cancel", id, "enough")
            assert told["status"] == "processing"
            waiting = asyncio.create_task(ending.write(one, [(claim, Completed())]))
        await until_waiting(two.connection, one.pid)
    second = await waiting
    kept = await one.archived(id)
    assert kept is not None
    assert kept["status"] == "completed"
    if first == "complete":
        assert second == []
    else:
        assert isinstance(second, Report)
        assert (second.completed, second.lost) == (1, [])
        assert kept["cancel_requested_at"] is not None
    assert await one.connection.fetchval("select count(*) from holdfast.archive") == 1


@pytest.mark.parametrize("becomes", ["claimed", "pending"])
async def test_cancel_judges_the_row_as_it_is_after_the_wait(one: Session, two: Session, becomes: str) -> None:
    (id,) = await one.add()
    if becomes == "pending":
        await one.claim("w1")
    async with two.connection.transaction():
        if becomes == "claimed":
            await two.claim("w1")
        else:
            await two.inbox("hand_back", [id], [1], "w1")
        waiting = asyncio.create_task(one.inbox("cancel", id, "enough"))
        await until_waiting(two.connection, one.pid)
    (row,) = await waiting
    if becomes == "claimed":
        assert row["status"] == "processing"
        assert (await one.row(id))["cancel_requested_at"] is not None
    else:
        assert row["status"] == "cancelled"
        assert await one.archived(id) is not None


async def test_revive_gives_all_attempts_back_and_the_next_claim_raises_the_generation(one: Session) -> None:
    (id,) = await one.add(max_attempts=1)
    (claim,) = await one.claim()
    await ending.write(one, [(claim, AttemptFailed("Boom", "once", crashed=True))])
    dead = await one.row(id)
    assert dead["status"] == "dead_letter"
    assert [row[0] for row in await one.inbox("revive", [id])] == [id]
    row = await one.row(id)
    assert (row["status"], row["attempts"], row["crashes"], row["dead_at"]) == ("pending", 0, 0, None)
    assert (row["lease_generation"], row["payload"], row["last_error"]) == (1, dead["payload"], "Boom: once")
    assert len(json.loads(row["errors"])) == 1
    await move_clock(one.connection, 1)
    (again,) = await one.claim("w2")
    assert (again.id, again.generation, again.attempt) == (id, 2, 1)
    assert again.fence > claim.fence
    late = await ending.write(one, [(claim, Completed())])
    assert late.lost == [claim]


async def test_revive_with_rows_in_flight_touches_only_dead_letters(one: Session, two: Session) -> None:
    ids = await one.add(6)
    claims = {claim.id: claim for claim in await one.claim("w1", limit=4)}
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter' where id = any($1::uuid[])", ids[:2])
    held = {id: await one.row(id) for id in ids[2:]}
    async with two.connection.transaction():
        await ending.write(two, [(claims[ids[2]], Completed())])
        revived = {row[0] for row in await one.inbox("revive", ids)}
    assert revived == set(ids[:2])
    assert {id: await one.row(id) for id in ids[3:]} == {id: held[id] for id in ids[3:]}
    assert await one.archived(ids[2]) is not None
    assert await one.inbox("revive", ids) == []
    report = await ending.write(one, [(claims[ids[3]], Completed())])
    assert report.completed == 1


async def test_two_operators_revive_each_row_once(one: Session, two: Session) -> None:
    ids = await one.add(3)
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter'")
    async with one.connection.transaction():
        first = await one.inbox("revive", ids[:2])
        second = await two.inbox("revive", ids)
    assert sorted(row[0] for row in [*first, *second]) == sorted(ids)
