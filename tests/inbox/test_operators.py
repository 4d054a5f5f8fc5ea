"""Cancel, revive, discard and run now, also with the rows in flight."""

import asyncio
import json
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.support.inbox import Session, move_clock, until_waiting

from holdfast import Holdfast, InvalidInput, NotFound
from holdfast.inbox import ending, operating
from holdfast.model.outcome import AttemptFailed, Completed
from holdfast.model.report import Report


async def test_cancelling_a_waiting_job_ends_it_at_once(one: Session) -> None:
    id = await one.connection.fetchval("select holdfast.enqueue('job', delay => '1 hour', idempotency_key => 'k')")
    (row,) = await one.inbox("cancel", id, "not needed", "ann")
    assert row["status"] == "cancelled"
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["last_error"], kept["attempts"]) == ("cancelled", "not needed", 0)
    assert kept["cancel_requested_at"] is not None
    assert await one.connection.fetchval("select expires_at is not null from holdfast.dedupe")
    assert await one.inbox("cancel", id, "again", "ann") == []


async def test_cancelling_a_running_job_tells_it_once(one: Session) -> None:
    (id,) = await one.add()
    await one.claim()
    (row,) = await one.inbox("cancel", id, "enough", "ann")
    assert row["status"] == "processing"
    first = (await one.row(id))["cancel_requested_at"]
    assert first is not None
    await one.inbox("cancel", id, "enough", "ann")
    after = await one.row(id)
    assert (after["cancel_requested_at"], after["status"], after["claimed_by"]) == (first, "processing", "w1")


async def test_cancelling_a_dead_letter_leaves_it(one: Session) -> None:
    (id,) = await one.add()
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter'")
    before = await one.row(id)
    (row,) = await one.inbox("cancel", id, "enough", "ann")
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
            waiting: asyncio.Task[object] = asyncio.create_task(one.inbox("cancel", id, "enough", "ann"))
        else:
            (told,) = await two.inbox("cancel", id, "enough", "ann")
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
        waiting = asyncio.create_task(one.inbox("cancel", id, "enough", "ann"))
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
    assert [row[0] for row in await one.inbox("revive", [id], "ann")] == [id]
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
        revived = {row[0] for row in await one.inbox("revive", ids, "ann")}
    assert revived == set(ids[:2])
    assert {id: await one.row(id) for id in ids[3:]} == {id: held[id] for id in ids[3:]}
    assert await one.archived(ids[2]) is not None
    assert await one.inbox("revive", ids, "ann") == []
    report = await ending.write(one, [(claims[ids[3]], Completed())])
    assert report.completed == 1


async def test_two_operators_revive_each_row_once(one: Session, two: Session) -> None:
    ids = await one.add(3)
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter'")
    async with one.connection.transaction():
        first = await one.inbox("revive", ids[:2], "ann")
        second = await two.inbox("revive", ids, "ann")
    assert sorted(row[0] for row in [*first, *second]) == sorted(ids)


async def dead_letters(session: Session, count: int) -> list[UUID]:
    """Dead letters with evidence."""
    ids = await session.add(count, max_attempts=1)
    claims = await session.claim()
    await ending.write(session, [(claim, AttemptFailed("Boom", "no", "trace")) for claim in claims])
    return ids


async def test_a_discarded_dead_letter_is_archived_with_its_evidence(one: Session) -> None:
    id = await one.connection.fetchval(
        "select holdfast.enqueue('job', '{\"n\": 1}', max_attempts => 1, idempotency_key => 'k',"
        ' headers => \'{"a": "b"}\')'
    )
    await move_clock(one.connection, 1)
    (claim,) = await one.claim("w1")
    await ending.write(one, [(claim, AttemptFailed("Boom", "no", "where"))])
    dead = dict(await one.row(id))
    assert [row["id"] for row in await one.inbox("discard", [id], "ann")] == [id]
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["last_error"], kept["result"]) == ("discarded", "Boom: no", None)
    assert json.loads(kept["errors"])[0]["trace"] == "where"
    assert kept["finished_at"] > dead["dead_at"]
    same = set(kept.keys()) & set(dead) - {"status"}
    assert len(same) > 20
    assert {name: kept[name] for name in same} == {name: dead[name] for name in same}
    assert await one.connection.fetchval("select expires_at is not null from holdfast.dedupe where key = 'k'")
    assert await one.inbox("discard", [id], "ann") == []


async def test_discard_touches_only_dead_letters_that_nobody_revives(one: Session, two: Session) -> None:
    dead = await dead_letters(one, 3)
    (pending,) = await one.add()
    async with two.connection.transaction():
        await two.inbox("revive", dead[:1], "ann")
        found = {row["id"] for row in await one.inbox("discard", [pending, *dead, *dead, uuid4()], "ann")}
    assert found == set(dead[1:])
    assert (await one.row(dead[0]))["status"] == "pending"
    assert (await one.row(pending))["status"] == "pending"


async def test_a_job_that_waits_runs_now(one: Session) -> None:
    scheduled, retrying, due, running, ordered = (
        *await one.add(due=3600),
        *await one.add(due=3600, attempts=2),
        *await one.add(),
        *await one.add(due=0),
        *await one.add(due=3600, ordered=True, skips=True),
    )
    await one.connection.execute("update holdfast.inbox set status = 'processing' where id = $1", running)
    before = await one.connection.fetchval("select clock_timestamp()")
    found = {
        row["id"] for row in await one.inbox("run_now", [ordered, running, due, retrying, scheduled, scheduled], "ann")
    }
    assert found == {scheduled, retrying, ordered}
    for id in found:
        row = await one.row(id)
        assert before < row["available_at"] <= await one.connection.fetchval("select clock_timestamp()")
    assert (await one.row(retrying))["attempts"] == 2
    claimed = {claim.id for claim in await one.claim("w1")}
    assert claimed == {scheduled, retrying, due}


async def test_a_job_that_runs_now_has_a_time_after_its_transaction_drew_its_number(one: Session, two: Session) -> None:
    """The claim floor needs it: what commits later must not carry an earlier time than its transaction."""
    (id,) = await one.add(due=3600)
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", id)
        waiting = asyncio.create_task(one.inbox("run_now", [id], "ann"))
        await until_waiting(two.connection, one.pid)
        free = await two.connection.fetchval("select clock_timestamp()")
    assert len(await waiting) == 1
    assert (await one.row(id))["available_at"] > free


async def test_many_are_cancelled_in_batches_in_the_order_of_ids(
    one: Session, hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating, "BATCH", 2)
    waiting = await one.add(3, due=3600)
    (running,) = await one.add()
    await one.claim("w1")
    (dead,) = await one.add()
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter' where id = $1", dead)
    found = await hf.cancel_many([dead, running, *waiting, uuid4()], "enough")
    assert found == {**dict.fromkeys(waiting, "cancelled"), running: "processing"}
    kept = await one.archived(waiting[0])
    assert kept is not None
    assert (kept["status"], kept["last_error"]) == ("cancelled", "enough")
    assert (await one.row(running))["cancel_requested_at"] is not None
    assert (await one.row(dead))["cancel_requested_at"] is None


async def test_cancelling_a_dead_letter_is_an_error_that_names_discard(one: Session, hf: Holdfast) -> None:
    (id,) = await one.add()
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter'")
    with pytest.raises(InvalidInput, match=rf"dead letter and cannot be cancelled.*holdfast dead discard {id}"):
        await hf.cancel(id)
    with pytest.raises(InvalidInput, match="dead letter"):
        hf.cancel_sync(id)
    assert await hf.discard([id]) == [id]
    assert hf.discard_sync([id]) == []
    with pytest.raises(NotFound):
        await hf.cancel(id)


async def test_a_row_that_ended_by_hand_cannot_be_cancelled(one: Session, hf: Holdfast) -> None:
    (id,) = await one.add()
    await one.connection.execute("update holdfast.inbox set status = 'completed'")
    with pytest.raises(NotFound):
        await hf.cancel(id)


async def test_jobs_are_found_by_filter(one: Session, hf: Holdfast) -> None:
    mail = await one.add(2, queue="mail", due=3600)
    (other,) = await one.add(kind="other")
    (dead,) = await one.add(queue="mail")
    await one.connection.execute(
        "update holdfast.inbox set status = 'dead_letter', dead_at = now() - interval '3 h', last_error = 'a_50%' "
        "where id = $1", dead,
    )  # fmt: skip
    await one.connection.execute("update holdfast.inbox set last_error = 'b' where id = $1", mail[0])
    assert await hf.find_jobs() == sorted([*mail, other, dead])
    assert await hf.find_jobs(queue="mail", status="pending") == sorted(mail)
    assert await hf.find_jobs(kind="other") == [other]
    assert hf.find_jobs_sync(status="dead_letter", error="_50%") == [dead]
    assert await hf.find_jobs(error="b") == [mail[0]]
    assert await hf.find_jobs(status="dead_letter", since="2h") == []
    assert await hf.find_jobs(status="dead_letter", since="4h") == [dead]
    assert await hf.find_jobs(waiting=True) == sorted(mail)
    assert len(await hf.find_jobs(limit=1)) == 1
    assert set(hf.run_now_sync(await hf.find_jobs(waiting=True))) == set(mail)
    with pytest.raises(InvalidInput, match="expected one of pending"):
        await hf.find_jobs(status="completed")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="is not a filter"):
        await hf.find_jobs(state="pending")  # type: ignore[call-arg]


async def test_the_verbs_in_sql(one: Session) -> None:
    dead, (waiting,) = await dead_letters(one, 2), await one.add(due=3600)
    fetch = one.connection.fetch
    with pytest.raises(asyncpg.PostgresError, match=f"{dead[0]} is a dead letter") as error:
        await fetch("select * from holdfast.cancel($1::uuid[])", [waiting, dead[0]])
    assert error.value.sqlstate == "HF003"
    assert (await one.row(waiting))["status"] == "pending"
    assert [tuple(row) for row in await fetch("select holdfast.run_now($1::uuid[])", [waiting])] == [(waiting,)]
    found = await fetch("select * from holdfast.cancel($1::uuid[], 'enough')", [waiting, uuid4()])
    assert [tuple(row) for row in found] == [(waiting, "cancelled")]
    gone = await fetch("select holdfast.discard(array(select id from holdfast.dead_letter where kind = 'job')) as id")
    assert {row["id"] for row in gone} == set(dead)
