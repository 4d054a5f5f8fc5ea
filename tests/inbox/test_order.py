"""P8: rows of an ordered key run one at a time and in order; everything else about a key, statement by statement."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest
from tests.support.inbox import Session, guarded_arguments, move_clock, session, until_waiting
from tests.support.order import alter_function
from tests.support.pooler import direct

from holdfast.inbox.about import QueueKey, about
from holdfast.inbox.ending import write
from holdfast.inbox.guarded import claims_of
from holdfast.model.floor import START
from holdfast.model.job import Claim
from holdfast.model.outcome import AttemptFailed, Completed, HandedBack, Outcome, Snoozed

KEY = ("default", "k")


async def add(session: Session, count: int = 1, key: str = "k", **options: object) -> list[UUID]:
    return await session.add(count, key=key, ordered=True, **options)  # type: ignore[arg-type]


async def statuses(session: Session, ids: Sequence[UUID]) -> list[str]:
    return [(await session.row(id))["status"] for id in ids]


async def end(session: Session, claim: Claim, outcome: Outcome) -> None:
    await write(session, [(claim, outcome)])


async def test_the_head_is_claimed_and_the_rest_is_blocked(one: Session) -> None:
    ids = await add(one, 3)
    (other,) = await add(one, key="other")
    claims = await one.claim_guarded()
    assert {claim.id for claim in claims} == {ids[0], other}
    assert all(claim.ordered for claim in claims)
    assert await statuses(one, ids) == ["processing", "blocked", "blocked"]


async def test_what_is_not_blocked_is_passed_and_found_through_its_key(one: Session) -> None:
    ids = await add(one, 3)
    rows = await one.guarded_rows(block=False)
    (claim,) = claims_of("w1", rows[1:])
    told = about(rows[0]["about"])
    assert (claim.id, told.passed) == (ids[0], [QueueKey("default", "k")])
    assert (told.left, told.stops) == (0, ())  # the floor may go on
    assert await statuses(one, ids) == ["processing", "pending", "pending"]
    await end(one, claim, Completed())
    assert await one.claim_guarded(look=0, vacated=[KEY], hint=START) == []  # before the floor: met on the way
    assert [claim.id for claim in await one.claim_guarded(look=0, vacated=[KEY])] == [ids[1]]


async def test_the_free_claim_leaves_ordered_and_owned_rows_alone_and_says_that_they_wait(one: Session) -> None:
    await add(one)
    (last,) = await one.claim_rows("w1", 25, rescan=True)
    told = about(last["about"])
    assert (told.found, told.guarded) == (0, True)
    assert await one.claim() == []


async def test_a_vacated_key_hands_its_next_row_over_in_order(one: Session) -> None:
    ids = await add(one, 4)
    (claim,) = await one.claim_guarded()
    for expected in ids[1:]:
        assert await one.claim_guarded(vacated=[KEY]) == []  # not before the row has ended
        await end(one, claim, Completed())
        (claim,) = await one.claim_guarded(look=0, vacated=[KEY])
        assert (claim.id, claim.generation, claim.attempt) == (expected, 1, 1)


async def test_priority_is_ignored_within_a_key(one: Session) -> None:
    (late,) = await add(one, priority=3)
    (urgent,) = await add(one, priority=0)
    # The lane of priority 0 comes first, and its row is not the head; the head itself was not reached yet.
    assert await one.claim_guarded(look=1, hint=START) == []
    assert await statuses(one, [late, urgent]) == ["pending", "blocked"]
    assert [claim.id for claim in await one.claim_guarded()] == [late]


async def test_a_failed_head_holds_its_key_until_it_succeeds(one: Session) -> None:
    head, following = await add(one, 2)
    (claim,) = await one.claim_guarded()
    await end(one, claim, AttemptFailed("Boom", "", delay=30))
    assert await one.claim_guarded(vacated=[KEY]) == []
    assert await statuses(one, [head, following]) == ["pending", "blocked"]
    await move_clock(one.connection, 60)
    (claim,) = await one.claim_guarded()
    assert (claim.id, claim.attempt) == (head, 2)
    await end(one, claim, Completed())
    assert [claim.id for claim in await one.claim_guarded(vacated=[KEY])] == [following]


async def test_a_dead_head_lets_go_of_its_key(one: Session) -> None:
    head, following = await add(one, 2, max_attempts=1)
    (claim,) = await one.claim_guarded()
    await end(one, claim, AttemptFailed("Boom", ""))
    assert (await one.row(head))["status"] == "dead_letter"
    assert [claim.id for claim in await one.claim_guarded(vacated=[KEY])] == [following]


async def test_a_head_that_waits_is_skipped_when_asked_for_and_comes_first_when_it_is_due(one: Session) -> None:
    head, second, third = await add(one, 3, skips=True)
    (claim,) = await one.claim_guarded()
    await end(one, claim, AttemptFailed("Boom", "", delay=30))
    (claim,) = await one.claim_guarded(vacated=[KEY])
    assert claim.id == second
    await move_clock(one.connection, 60)
    assert await one.claim_guarded() == []  # the head is due, and the second still runs: it is blocked
    assert await statuses(one, [head, second, third]) == ["blocked", "processing", "blocked"]
    await end(one, claim, Completed())
    assert [claim.id for claim in await one.claim_guarded(vacated=[KEY])] == [head]


async def test_a_head_that_is_unblocked_while_a_claim_is_under_way_is_not_skipped(
    one: Session, two: Session, migrated_url: str
) -> None:
    """It is due from the moment in which it is unblocked, and that is later than the claim began."""
    _, second, third = await add(one, 3, skips=True)
    (claim,) = await one.claim_guarded(take=1, block=False)
    holder = await asyncpg.connect(direct(migrated_url))
    async with holder.transaction():
        await holder.execute("select pg_advisory_xact_lock(1)")
        statement = two.database.sql("inbox", "claim_guarded").replace(
            "from holdfast.claim_guarded(", "from pg_advisory_xact_lock(1), lateral holdfast.claim_guarded("
        )
        late = asyncio.create_task(two.connection.fetch(statement, *guarded_arguments("late", block=False)))
        await until_waiting(one.connection, two.pid)
        await end(one, claim, Completed())
        assert await one.claim_guarded(take=0, look=0, vacated=[KEY]) == []
    await holder.close()
    assert {row["id"] for row in await late} <= {None, second}
    assert (await one.row(third))["status"] == "pending"


async def test_a_snoozed_or_released_head_is_still_the_head(one: Session) -> None:
    head, following = await add(one, 2)
    for outcome in (Snoozed(1.0), HandedBack()):
        (claim,) = await one.claim_guarded()
        assert (claim.id, claim.attempt) == (head, 1)
        await end(one, claim, outcome)
        assert await one.claim_guarded(vacated=[KEY], look=0, hint=START) == []
        assert await statuses(one, [head, following]) == ["pending", "blocked"]
        await move_clock(one.connection, 60)


async def test_a_row_that_committed_late_waits_for_the_one_that_runs_and_is_next(one: Session, two: Session) -> None:
    """Concurrent enqueues may run in either order, but never at the same time; and who came later runs later."""
    transaction = two.connection.transaction()
    await transaction.start()
    (early,) = await add(two)
    (second,) = await add(one)
    (claim,) = await one.claim_guarded()
    assert claim.id == second
    await transaction.commit()
    (third,) = await add(one)
    assert await one.claim_guarded() == []
    assert await statuses(one, [early, third]) == ["blocked", "blocked"]
    await end(one, claim, AttemptFailed("Boom", "", delay=30))  # back to pending: now the early one is the head
    (claim,) = await one.claim_guarded(vacated=[KEY])
    assert claim.id == early
    await end(one, claim, Completed())
    await move_clock(one.connection, 60)
    (claim,) = await one.claim_guarded(vacated=[KEY])
    assert claim.id == second


async def test_a_key_in_another_hand_is_left_and_the_floor_is_told(one: Session, two: Session) -> None:
    ids = await add(one, 2)
    async with two.connection.transaction():
        await two.connection.fetchval("select pg_try_advisory_xact_lock(holdfast.key_lock('default', 'k'))")
        (row,) = await one.guarded_rows()
        told = about(row["about"])
        first = await one.row(ids[0])
        assert (told.left, told.stops) == (2, [(2, first["available_at"], first["seq"])])
        assert await statuses(one, ids) == ["pending", "pending"]
    assert [claim.id for claim in await one.claim_guarded()] == [ids[0]]


@asynccontextmanager
async def decided(one: Session, two: Session, url: str) -> AsyncIterator[tuple[UUID, UUID, asyncio.Task[list[Claim]]]]:
    """A claim of the worker "slow" that has decided about a key and stands still. Then a row commits that comes first.

    Gives that row, the one that the claim has found at the head of the key, and the claim. It goes on at the end.
    """
    stop = "\n    -- 4. ", "\n    if worker = 'slow' then perform pg_advisory_xact_lock(1); end if; -- 4. "
    await alter_function(url, "claim_guarded", stop)
    holder = await asyncpg.connect(direct(url))
    async with session(url, "producer") as producer:
        transaction = producer.connection.transaction()
        await transaction.start()
        (first,) = await add(producer)
        (second,) = await add(one)
        async with holder.transaction():
            await holder.execute("select pg_advisory_xact_lock(1)")
            slow = asyncio.create_task(two.claim_guarded("slow"))
            await until_waiting(one.connection, two.pid)
            await transaction.commit()
            yield first, second, slow
    await holder.close()


async def without_key_locks(url: str) -> None:
    """Every key counts as locked."""
    await alter_function(
        url, "lock_keys", ("pg_try_advisory_xact_lock(holdfast.key_lock(w.queue, w.key))", "w.queue is not null")
    )


async def test_nobody_decides_about_a_key_that_another_claim_has_locked(
    one: Session, two: Session, migrated_url: str
) -> None:
    async with decided(one, two, migrated_url) as (first, second, slow):
        assert await one.claim_guarded("fast") == []
    (claim,) = await slow
    assert claim.id == second
    await end(one, claim, Completed())
    assert [claim.id for claim in await one.claim_guarded("fast")] == [first]


async def test_without_the_locks_on_keys_two_claims_meet_in_the_unique_index(
    one: Session, two: Session, migrated_url: str
) -> None:
    await without_key_locks(migrated_url)
    async with decided(one, two, migrated_url) as (first, _, slow):
        assert [claim.id for claim in await one.claim_guarded("fast")] == [first]
    with pytest.raises(asyncpg.UniqueViolationError, match="idx_inbox_partition_processing"):
        await slow


async def test_without_the_locks_on_keys_order_is_lost(one: Session, two: Session, migrated_url: str) -> None:
    """The head waits for its retry, so the rows behind it have to wait. No index can know that."""
    await without_key_locks(migrated_url)
    async with decided(one, two, migrated_url) as (first, second, slow):
        (claim,) = await one.claim_guarded("fast")
        await end(one, claim, AttemptFailed("Boom", "", delay=3600))
    assert claim.id == first
    assert [claim.id for claim in await slow] == [second]


async def test_more_heads_than_room_are_left_pending(one: Session) -> None:
    ids = [id for n in range(4) for id in await add(one, key=f"k{n}")]
    rows = await one.guarded_rows(take=2)
    taken = {row["id"] for row in rows if row["id"]}
    assert len(taken) == 2
    told = about(rows[0]["about"])
    assert (told.found, told.left, [lane for lane, *_ in told.stops]) == (4, 2, [2])
    assert await statuses(one, [id for id in ids if id not in taken]) == ["pending", "pending"]


async def test_heads_handed_over_beyond_the_room_are_everyones(one: Session) -> None:
    keys = [f"k{n}" for n in range(3)]
    ids = {key: await add(one, 2, key=key) for key in keys}
    for claim in await one.claim_guarded():
        await end(one, claim, Completed())
    claims = await one.claim_guarded(take=1, look=0, vacated=[("default", key) for key in keys])
    assert len(claims) == 1
    rest = [ids[key][1] for key in keys if ids[key][1] != claims[0].id]
    assert await statuses(one, rest) == ["pending", "pending"]
    await move_clock(one.connection, 1)
    assert {claim.id for claim in await one.claim_guarded()} == set(rest)


async def test_what_this_worker_cannot_run_is_unblocked_for_one_that_can(one: Session) -> None:
    await add(one)
    (foreign,) = await add(one, kind="other")
    (claim,) = await one.claim_guarded(known={"job": (1, 1), "other": (1, 1)})
    await end(one, claim, Completed())
    assert await one.claim_guarded(vacated=[KEY]) == []
    assert (await one.row(foreign))["status"] == "pending"


async def test_a_suspect_keeps_its_place_in_the_key(one: Session) -> None:
    head, following = await add(one, 2)
    await one.connection.execute("update holdfast.inbox set crashes = 1 where id = $1", head)
    assert await one.claim_guarded() == []  # the second is due, but the suspect comes first, alone
    assert await statuses(one, [head, following]) == ["pending", "blocked"]
    claim = await one.claim_suspect()
    assert claim is not None and claim.id == head and claim.ordered
    await end(one, claim, Completed())
    assert [claim.id for claim in await one.claim_guarded(vacated=[KEY])] == [following]


async def test_a_paused_queue_keeps_its_rows(one: Session) -> None:
    _head, following = await add(one, 2)
    (claim,) = await one.claim_guarded()
    await one.run("queues", "pause", "default", "ann")
    await end(one, claim, Completed())
    assert await one.claim_guarded(vacated=[KEY]) == []
    assert (await one.row(following))["status"] == "pending"
    assert await one.claim_guarded() == []
    await one.run("queues", "resume", "default", "ann")
    await move_clock(one.connection, 1)
    assert [claim.id for claim in await one.claim_guarded()] == [following]


async def test_a_locked_head_is_left_and_nobody_waits(one: Session, two: Session) -> None:
    _head, following = await add(one, 2)
    (claim,) = await one.claim_guarded()
    await end(one, claim, Completed())
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", following)
        assert await one.claim_guarded(vacated=[KEY]) == []
        assert await one.connection.fetchval("select holdfast.unblock_heads(array['default'], array['k'])") == 0
    assert await one.connection.fetchval("select holdfast.unblock_heads(array['default'], array['k'])") == 1
    assert (await one.row(following))["status"] == "pending"


async def test_releasing_leaves_a_key_that_is_at_work(one: Session) -> None:
    ids = await add(one, 2)
    await one.claim_guarded()
    assert await one.connection.fetchval("select holdfast.unblock_heads(array['default'], array['k'])") == 0
    assert await statuses(one, ids) == ["processing", "blocked"]


async def test_owned_rows_are_claimed_by_bucket_with_or_without_order(one: Session) -> None:
    free = await one.add(2, key="a", owned=True)
    kept = await one.add(2, key="a", owned=True, ordered=True)
    bucket = (await one.row(free[0]))["partition_bucket"]
    assert await one.claim() == []
    assert await one.claim_guarded(buckets=[(bucket + 1) % 1024]) == []
    claims = await one.claim_guarded(buckets=[bucket])
    assert {claim.id for claim in claims} == {*free, kept[0]}
    (head,) = [claim for claim in claims if claim.ordered]
    await end(one, head, Completed())
    assert await one.claim_guarded(vacated=[("default", "a")]) == []  # the bucket is another's by now
    assert (await one.row(kept[1]))["status"] == "pending"


async def test_the_last_guard_is_the_unique_index(one: Session) -> None:
    ids = await add(one, 2)
    await one.claim_guarded()
    message = await one.connection.fetchval(
        """
        select 'unique' from pg_indexes
        where indexname = 'idx_inbox_partition_processing' and indexdef like 'CREATE UNIQUE INDEX%'
        """
    )
    assert message == "unique"
    try:
        await one.connection.execute("update holdfast.inbox set status = 'processing' where id = $1", ids[1])
    except Exception as error:
        assert "idx_inbox_partition_processing" in str(error)
    else:
        raise AssertionError("two rows of one ordered key are in processing")
