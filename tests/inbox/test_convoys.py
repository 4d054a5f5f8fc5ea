"""P8 and P4 of convoys: rows that follow a claimed row of their key, read and ended under its hold."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.support.inbox import JOB, LEASE, Session, until_waiting

from holdfast.db.database import Database
from holdfast.inbox import convoys
from holdfast.inbox.claim import Known
from holdfast.inbox.ending import write
from holdfast.model.convoy import Convoy
from holdfast.model.job import Claim
from holdfast.model.outcome import AttemptFailed, Completed, HandedBack
from holdfast.model.report import Report

KNOWN = Known(JOB)
FENCED = "case when l.head in (select h.id from locked h where h.id = h.head) then true end"
"""The part of the statement that asks for the hold on the head."""


async def add(session: Session, count: int = 1, key: str = "k", **options: object) -> list[UUID]:
    return await session.add(count, key=key, ordered=True, **options)  # type: ignore[arg-type]


async def behind(session: Session, head: Claim, most: int = 9) -> list[Claim]:
    (found,) = await convoys.followers(session, [head], most, KNOWN)
    return found


async def end(session: Session, rows: Sequence[Claim], repeated: bool = False) -> Report[Claim]:
    convoy = Convoy(tuple((row, Completed(f'"{n}"')) for n, row in enumerate(rows)))
    return await convoys.end(session, [convoy], repeated)


async def convoy_of(session: Session, count: int) -> tuple[list[UUID], list[Claim]]:
    ids = await add(session, count)
    (head,) = await session.claim_guarded()
    return ids, [head, *await behind(session, head)]


async def live(session: Session) -> list[UUID]:
    return [row["id"] for row in await session.connection.fetch("select id from holdfast.inbox order by seq")]


async def test_what_waits_behind_a_head_is_read_in_order_and_stays_as_it_is(one: Session) -> None:
    ids = await add(one, 3)
    others = await add(one, 2, key="other")
    heads = await one.claim_guarded()
    before = await one.snapshot()
    found = await convoys.followers(one, heads, 9, KNOWN)
    by_key = {head.key: [row.id for row in rows] for head, rows in zip(heads, found, strict=True)}
    assert by_key == {"k": ids[1:], "other": others[1:]}
    assert {(row.generation, row.attempt, row.ordered) for rows in found for row in rows} == {(1, 1, True)}
    assert await one.snapshot() == before
    head = next(head for head in heads if head.key == "k")
    assert [row.id for row in await behind(one, head, most=1)] == ids[1:2]


async def test_a_row_that_committed_late_comes_first(one: Session, two: Session) -> None:
    """It was published before the third, and its transaction had ended by then. So it must come before the third."""
    transaction = two.connection.transaction()
    await transaction.start()
    (early,) = await add(two)
    await add(one)
    (head,) = await one.claim_guarded()
    await transaction.commit()
    (third,) = await add(one)
    assert [row.id for row in await behind(one, head)] == [early, third]


@pytest.mark.parametrize(
    "change",
    ["available_at = now() + interval '1 hour'", "crashes = 1", "attempts = 1",
     "cancel_requested_at = now()", "expires_at = now() + interval '1 hour'", "idempotency_key = 'mine'",
     "payload_version = 2", "kind = 'unknown', payload = '{\"type\": \"unknown\"}'"],
)  # fmt: skip
async def test_what_comes_after_a_row_that_cannot_run_waits_for_it(one: Session, change: str) -> None:
    ids = await add(one, 4)
    (head,) = await one.claim_guarded()
    await one.connection.execute(f"update holdfast.inbox set {change} where id = $1", ids[2])
    assert [row.id for row in await behind(one, head)] == ids[1:2]


async def test_a_row_that_waits_for_its_retry_is_left_out_if_it_does_not_hold_its_key(one: Session) -> None:
    (failed,) = await add(one, skips=True)
    (claim,) = await one.claim_guarded()
    await write(one, [(claim, AttemptFailed("Boom", "", delay=600))])
    ids = await add(one, 3, skips=True)
    (head,) = await one.claim_guarded()
    assert (head.id, [row.id for row in await behind(one, head)]) == (ids[0], ids[1:])
    assert failed in await live(one)


async def test_nothing_follows_in_a_paused_queue(one: Session) -> None:
    await add(one, 3)
    (head,) = await one.claim_guarded()
    await one.connection.execute("insert into holdfast.queues (name, paused_at) values ('default', now())")
    assert await behind(one, head) == []


async def test_nobody_else_claims_a_row_of_the_key_meanwhile(one: Session, two: Session) -> None:
    ids, rows = await convoy_of(one, 4)
    assert await two.claim_guarded("w2") == []  # and what it meets becomes blocked
    report = await end(one, rows)
    assert (report.completed, report.lost, await live(one)) == (4, [], [])
    assert [row.id for row in rows] == ids


async def test_a_convoy_ends_as_if_each_row_had_been_claimed(one: Session) -> None:
    ids, rows = await convoy_of(one, 3)
    rows[1].took = 2.0
    await end(one, rows)
    for n, id in enumerate(ids):
        archived = await one.archived(id)
        assert archived is not None
        assert (archived["status"], archived["result"], archived["claimed_by"]) == ("completed", f'"{n}"', "w1")
        assert (archived["attempts"], archived["lease_generation"]) == (1, 1)
        assert archived["fence"] == rows[0].fence
        assert archived["claimed_at"] <= archived["finished_at"]
    second = await one.archived(ids[1])
    assert second is not None and (second["finished_at"] - second["claimed_at"]).total_seconds() == pytest.approx(2)


async def test_several_convoys_end_together_and_one_that_was_lost_does_not_hold_up_the_others(one: Session) -> None:
    for key in ("a", "b"):
        await add(one, 3, key=key)
    heads = await one.claim_guarded()
    found = await convoys.followers(one, heads, 9, KNOWN)
    lost = heads[0]
    await write(one, [(lost, HandedBack())])
    both = [Convoy(tuple((row, Completed()) for row in [head, *rows])) for head, rows in zip(heads, found, strict=True)]
    report = await convoys.end(one, both, repeated=False)
    assert report.completed == 3
    assert {claim.key for claim in report.lost} == {lost.key}
    assert len(await live(one)) == 3


async def take_over(session: Session, head: Claim) -> None:
    """Another worker claims the head, as after a lease that expired."""
    await write(session, [(head, HandedBack())])
    (again,) = await session.claim_guarded("w2", hint=(await session.connection.fetchval("select now()"), 0))
    assert (again.id, again.generation) == (head.id, head.generation + 1)


async def test_nothing_of_a_convoy_is_written_when_its_head_is_lost(one: Session) -> None:
    _, rows = await convoy_of(one, 3)
    await take_over(one, rows[0])
    before = await one.snapshot()
    report = await end(one, rows)
    assert (report.completed, {row.id for row in report.lost}) == (0, {row.id for row in rows})
    assert await one.snapshot() == before


async def test_without_the_fence_a_convoy_would_be_written_that_was_lost(
    one: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above is worth."""
    _, rows = await convoy_of(one, 3)
    await take_over(one, rows[0])
    fenced = one.database.sql("inbox", "end_convoys")
    assert FENCED in fenced
    monkeypatch.setattr(Database, "sql", lambda *_: fenced.replace(FENCED, "true"))
    assert (await end(one, rows)).completed == 2


async def test_a_row_that_was_claimed_since_it_was_read_is_not_ended(one: Session) -> None:
    ids, rows = await convoy_of(one, 3)
    await write(one, [(rows[0], Completed())])
    (claim,) = await one.claim_guarded("w2", vacated=[("default", "k")])
    assert claim.id == ids[1]
    assert (await end(one, rows)).completed == 0
    assert await live(one) == ids[1:]


async def test_a_row_that_was_cancelled_on_the_way_stays_cancelled_and_the_others_are_ended(one: Session) -> None:
    ids, rows = await convoy_of(one, 4)
    await one.connection.execute("select holdfast.cancel_jobs(array[$1::uuid], 'enough')", ids[2])
    report = await end(one, rows)
    assert (report.completed, [row.id for row in report.lost]) == (3, [ids[2]])
    archived = await one.archived(ids[2])
    assert archived is not None and archived["status"] == "cancelled"
    assert await live(one) == []


async def test_the_end_waits_for_rows_that_another_changes_at_this_moment(one: Session, two: Session) -> None:
    ids, rows = await convoy_of(one, 3)
    async with two.connection.transaction():
        await two.connection.execute("update holdfast.inbox set status = 'blocked' where id = $1", ids[1])
        ending = asyncio.create_task(end(one, rows))
        await until_waiting(two.connection, one.pid)
    assert (await ending).completed == 3


@pytest.mark.timeout(60)
async def test_an_operator_who_cancels_the_same_rows_and_a_worker_who_ends_them_do_not_deadlock(
    one: Session, two: Session
) -> None:
    """Both lock the rows in the order of their ids, whichever of them is the head."""
    ids, rows = await convoy_of(one, 5)
    lowest, highest = min(ids), max(ids)
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", lowest)
        ending = asyncio.create_task(end(one, rows))
        await until_waiting(two.connection, one.pid)
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", highest)  # it is free
    assert (await ending).completed == 5


async def test_an_end_whose_answer_was_lost_is_found_again(one: Session) -> None:
    _, rows = await convoy_of(one, 3)
    await end(one, rows)
    report = await end(one, rows, repeated=True)
    assert (report.completed, report.lost) == (3, [])
    report = await end(one, rows)
    assert (report.completed, len(report.lost)) == (0, 3)


async def test_an_end_after_the_lease_is_late_unless_somebody_has_taken_over(one: Session) -> None:
    _, rows = await convoy_of(one, 3)
    await one.connection.execute(
        f"update holdfast.inbox set lease_expires_at = now() - interval '{LEASE} s' where status = 'processing'"
    )
    report = await end(one, rows)
    assert (report.completed, report.late) == (3, 1)
