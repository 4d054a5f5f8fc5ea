"""Renew and its companions: which leases are kept, which are lost, which were cancelled."""

from datetime import timedelta

from tests.support.inbox import Session, move_clock

from holdfast.db.link import Link
from holdfast.inbox.renew import cancelled, renew
from holdfast.model.job import Hold


async def test_renew_moves_the_lease_and_nothing_else(one: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim("w1", lease=10)
    before = await one.row(id)
    await move_clock(one.connection, 5)
    assert [row[0] for row in await one.inbox("renew", [id], [claim.generation], "w1", 30.0)] == [id]
    after = await one.row(id)
    assert after["lease_expires_at"] >= before["lease_expires_at"] + timedelta(seconds=25)
    assert {k: v for k, v in after.items() if k != "lease_expires_at"} == {
        k: v for k, v in before.items() if k != "lease_expires_at"
    }


async def test_a_lease_that_ran_out_is_kept_while_nobody_took_it(one: Session) -> None:
    """After an outage every lease is out and the work still runs: the generation decides."""
    (id,) = await one.add()
    (claim,) = await one.claim("w1", lease=10)
    await move_clock(one.connection, 60)
    assert len(await one.inbox("renew", [id], [claim.generation], "w1", 10.0)) == 1


async def test_renewed_lost_and_merely_locked_are_told_apart(one: Session, two: Session) -> None:
    ids = await one.add(4)
    claims = await one.claim("w1")
    await one.inbox("hand_back", [ids[2]], [1], "w1")
    await two.claim("w2")
    link = Link(one.database, "keeper")
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", ids[1])
        renewal = await renew(link, [Hold("w1", claim.id, claim.generation) for claim in claims], 90.0)
    assert renewal.renewed == {ids[0], ids[3]}
    assert renewal.lost == {ids[2]}
    everything = await renew(link, [Hold("w1", ids[0], 1), Hold("w1", ids[1], 1)], 90.0)
    assert (everything.renewed, everything.lost) == ({ids[0], ids[1]}, set())
    await link.close()


async def test_held_says_what_is_held_and_cancelled(one: Session) -> None:
    ids = await one.add(3)
    await one.claim("w1")
    await one.inbox("cancel", ids[1], "enough", "ann")
    rows = await one.inbox("held", ids, [1, 1, 2], "w1")
    assert {row["id"]: row["cancelled"] for row in rows} == {ids[0]: False, ids[1]: True}
    assert await one.inbox("held", ids, [1, 1, 1], "w2") == []


async def test_cancellations_are_told_to_each_worker(one: Session) -> None:
    ids = await one.add(4)
    await one.claim("w1", limit=2)
    await one.claim("w2", limit=2)
    for id in (ids[0], ids[3]):
        await one.inbox("cancel", id, "enough", "ann")
    link = Link(one.database, "keeper")
    assert await cancelled(link, ["w1", "w2"]) == {Hold("w1", ids[0], 1), Hold("w2", ids[3], 1)}
    assert await cancelled(link, ["w1"]) == {Hold("w1", ids[0], 1)}
    await link.close()
