"""The five guarantee tests of the series' part 8, by name."""

from holdfast.db.link import Link
from holdfast.inbox import ending
from holdfast.inbox.renew import renew
from holdfast.model.job import Hold
from holdfast.model.outcome import AttemptFailed, Completed
from tests.support.inbox import Session, move_clock

ENQUEUE = "select holdfast.enqueue('job', '{\"order_id\": 9182}', idempotency_key => 'receipt-9182-v1')"


async def test_producer_retry_with_the_same_idempotency_key_creates_one_logical_row(one: Session) -> None:
    first = await one.connection.fetchval(ENQUEUE)
    assert await one.connection.fetchval(ENQUEUE) == first
    assert await one.connection.fetchval("select count(*) from holdfast.inbox") == 1
    await move_clock(one.connection, 1)
    (claim,) = await one.claim()
    await ending.write(one, [(claim, Completed())])
    assert await one.connection.fetchval(ENQUEUE) == first
    assert await one.connection.fetchval("select count(*) from holdfast.jobs") == 1


async def test_two_workers_claiming_concurrently_never_receive_the_same_row_in_the_same_generation(
    one: Session, two: Session
) -> None:
    ids = await one.add(50)
    async with one.connection.transaction():
        first = await one.claim("w1", limit=30)
        second = await two.claim("w2", limit=30)
    assert {(c.id, c.generation) for c in first}.isdisjoint((c.id, c.generation) for c in second)
    assert {c.id for c in first} | {c.id for c in second} == set(ids)


async def test_an_expired_lease_is_returned_to_pending_and_can_be_claimed_by_a_new_worker(one: Session) -> None:
    """With the series' own sweep; housekeeping's is tested in its room."""
    (id,) = await one.add()
    await one.claim("w1", lease=10)
    assert await one.claim("w2") == []
    await one.connection.execute("update holdfast.inbox set lease_expires_at = now() - interval '1 second'")
    await one.connection.execute(
        "update holdfast.inbox "
        "set status = 'pending', claimed_by = null, lease_expires_at = null, available_at = now() "
        "where status = 'processing' and lease_expires_at < now() and attempts < max_attempts"
    )
    (claim,) = await one.claim("w2")
    assert (claim.id, claim.generation, claim.attempt) == (id, 2, 2)


async def test_a_stale_worker_completing_with_an_old_claimed_by_or_fence_token_affects_zero_rows(
    one: Session,
) -> None:
    (id,) = await one.add()
    (stale,) = await one.claim("w1")
    await one.inbox("hand_back", [id], [stale.generation], "w1")
    (claim,) = await one.claim("w2")
    before = await one.snapshot()
    for worker, generation in [("w1", stale.generation), ("w1", claim.generation), ("w2", stale.generation)]:
        assert [*(await one.inbox("complete", [id], [generation], [], [], [], worker, []))[0]] == [0, 0, []]
        assert await one.inbox("fail", [id], [generation], ["e"], ["{}"], [None], [False], [False], worker) == []
        assert await one.inbox("renew", [id], [generation], worker, 90.0) == []
    link = Link(one.database, "keeper")
    assert (await renew(link, [Hold("w1", id, stale.generation)], 90.0)).lost == {id}
    await link.close()
    assert await one.snapshot() == before
    assert (await ending.write(one, [(claim, Completed())])).completed == 1


async def test_a_row_past_max_attempts_lands_in_dead_letter_and_no_longer_blocks_the_stream(one: Session) -> None:
    (poison,) = await one.add(max_attempts=2, key="order:9182")
    (next_in_stream,) = await one.add(key="order:9182")
    for n in (1, 2):
        (claim,) = await one.claim(limit=1)
        assert claim.id == poison
        await ending.write(one, [(claim, AttemptFailed("Boom", ""))])
        if n == 1:
            await one.connection.execute(
                "update holdfast.inbox set available_at = now() - interval '1 minute' where id = $1", poison
            )
    assert (await one.row(poison))["status"] == "dead_letter"
    assert [claim.id for claim in await one.claim()] == [next_in_stream]
