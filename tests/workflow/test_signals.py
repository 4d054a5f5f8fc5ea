"""No wake-up is lost, whatever a signal meets: an instance that waits, runs, is being parked, or has ended."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.support.inbox import Session, move_clock
from tests.support.waiting import PATIENCE
from tests.workflow.flows import (
    claim,
    due,
    end,
    for_signal,
    history,
    instance,
    park,
    signal,
    sleeping,
    start,
    started,
    step,
    waiting,
)

from holdfast.model.flow import Parked
from holdfast.model.job import Claim
from holdfast.workflow import ending

# One at a time


async def test_a_signal_wakes_the_instance_that_waits_for_it(one: Session) -> None:
    held = await started(one)
    report = await park(one, held, for_signal(records=(waiting(),)))
    assert (report.parked, report.lost, report.again) == (1, [], [])
    row = await one.row(held.id)
    assert (row["status"], row["attempts"], row["claimed_by"], row["lease_expires_at"]) == ("pending", 0, None, None)
    assert row["available_at"] > await one.connection.fetchval("select now() + interval '99 years'")
    assert await signal(one, held.id, "other") == "kept"
    assert not await due(one, held.id)
    assert await signal(one, held.id, "paid", {"by": "card"}) == "woken"
    assert await due(one, held.id)
    assert await signal(one, held.id) == "woken", "again, and it has not been claimed yet"
    (again,) = await claim(one)
    found = await history(one, again.id)
    assert [(each.n, each.name, bytes(each.payload)) for each in found.signals] == [
        (1, "other", b"null"), (2, "paid", b'{"by": "card"}'), (3, "paid", b"null"),
    ]  # fmt: skip
    assert (found.mail, again.generation) == (3, 2)


async def test_a_signal_before_the_first_claim_is_kept(one: Session) -> None:
    (id,) = await start(one, idempotency_key="checkout:1")
    assert await signal(one, "checkout:1") == "kept"
    (held,) = await claim(one)
    found = await history(one, id)
    assert (found.mail, len(found.signals)) == (1, 1)
    assert (await park(one, held, for_signal(mail=1))).parked == 1
    assert not await due(one, id)


async def test_a_signal_while_it_runs_makes_it_run_again_instead_of_waiting(one: Session) -> None:
    for existing in (False, True):
        held = await started(one)
        if existing:
            await one.connection.execute("insert into holdfast.instances (job_id) values ($1)", held.id)
        assert await signal(one, held.id) == "kept"
        report = await park(one, held, for_signal(mail=0, records=(waiting(),)))
        assert (report.parked, await due(one, held.id)) == (1, True)
        assert (await instance(one, held.id))["waits"] is None, "it does not wait"
        (again,) = await claim(one)
        assert (await park(one, again, for_signal(mail=1))).parked == 1
        assert not await due(one, held.id)
        await one.connection.execute("delete from holdfast.inbox")


async def test_a_claim_makes_what_it_waits_for_stale(one: Session) -> None:
    """Nothing has to be reset: a signal finds that it runs."""
    held = await started(one)
    await park(one, held, for_signal())
    await signal(one, held.id)
    await claim(one)
    assert await signal(one, held.id) == "kept"
    row = await one.row(held.id)
    assert row["status"] == "processing"


async def test_a_retry_is_not_woken_by_a_signal(one: Session) -> None:
    """Its attempt failed after it had waited before: it waits for its backoff now."""
    held = await started(one)
    await park(one, held, for_signal())
    await signal(one, held.id)
    (again,) = await claim(one)
    await one.inbox("fail", [again.id], [again.generation], ["E"], ['{"error": "E"}'], [60.0], [False], [False], "w1")
    assert await signal(one, held.id) == "kept"
    assert not await due(one, held.id)


async def test_a_repeated_signal_has_one_effect(one: Session) -> None:
    held = await started(one)
    assert await signal(one, held.id, key="s1") == "kept"
    assert await signal(one, held.id, key="s1") == "known"
    assert await signal(one, held.id, "other", key="s1") == "known"
    found = await history(one, held.id)
    assert (found.mail, len(found.signals)) == (1, 1)
    assert (await park(one, held, for_signal(mail=1))).parked == 1
    assert await signal(one, held.id, key="s1") == "known"
    assert not await due(one, held.id)


async def test_a_signal_without_payload_has_null(one: Session) -> None:
    held = await started(one)
    assert await one.connection.fetchval("select holdfast.signal($1, 'paid')", str(held.id)) == "kept"
    await signal(one, held.id, payload=None)
    assert [bytes(each.payload) for each in (await history(one, held.id)).signals] == [b"null", b"null"]


async def test_a_signal_to_nobody(one: Session) -> None:
    assert await signal(one, "nobody") == "unknown"
    assert await signal(one, uuid4()) == "unknown"
    (id,) = await start(one, idempotency_key="checkout:1")
    (held,) = await claim(one)
    await end(one, held)
    assert await signal(one, id) == "ended"
    (job,) = await one.add(kind="job")
    with pytest.raises(asyncpg.PostgresError, match="is not a workflow"):
        await signal(one, job)
    with pytest.raises(asyncpg.PostgresError, match="expected the name of a signal"):
        await signal(one, job, "")
    assert await one.connection.fetchval("select count(*) from holdfast.instances") == 0


async def test_a_signal_by_the_id_given_at_the_start_after_the_end(one: Session) -> None:
    await one.connection.execute("select holdfast.enqueue('checkout', idempotency_key => 'checkout:9')")
    assert await signal(one, "checkout:9") == "kept"
    (held,) = await claim(one)
    await end(one, held)
    assert await signal(one, "checkout:9") == "ended"


async def test_a_signal_that_is_rolled_back_wakes_nobody(one: Session, two: Session) -> None:
    held = await started(one)
    await park(one, held, for_signal())
    with suppress(ZeroDivisionError):
        async with two.connection.transaction():
            assert await signal(two, held.id) == "woken"
            raise ZeroDivisionError
    assert not await due(one, held.id)
    assert (await instance(one, held.id))["mail"] == 0


async def test_a_signal_that_stays_open_does_not_hold_up_the_batch(one: Session, two: Session) -> None:
    """Neither the parking of others, nor renewal and end; its own instance looks again in a moment, then less often."""
    for existing in (False, True):
        await start(one, 2)
        first, second = await claim(one)
        if existing:
            await one.connection.execute("insert into holdfast.instances (job_id) values ($1)", first.id)
        open_one = two.connection.transaction()
        await open_one.start()
        assert await signal(two, first.id) == "kept"
        held, took = first, []
        outcomes = [(first, for_signal(records=(waiting(),))), (second, for_signal())]
        for seconds in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
            before = await _now(one)
            report = await ending.write(one, outcomes)
            after = await _now(one)
            took.append(after - before)
            assert (report.parked, report.lost, report.again) == (len(outcomes), [], [])
            assert not await due(one, second.id)
            row = await one.row(held.id)
            assert before <= row["available_at"] - timedelta(seconds=seconds) <= after
            await one.connection.execute(
                "update holdfast.inbox set available_at = clock_timestamp() where id = $1", held.id
            )
            (held,) = await claim(one)
            outcomes = [(held, for_signal())]
        assert min(took) < timedelta(seconds=0.5), "of six, as this host may be busy"
        await open_one.commit()
        assert (await history(one, held.id)).mail == 1
        await park(one, held, for_signal(mail=1))
        assert (await one.row(held.id))["snoozes"] is None
        await one.connection.execute("delete from holdfast.inbox")


async def _now(one: Session) -> datetime:
    now: datetime = await one.connection.fetchval("select clock_timestamp()")
    return now


async def test_an_open_signal_does_not_hold_up_the_end(one: Session, two: Session) -> None:
    held = await started(one)
    async with two.connection.transaction():
        await signal(two, held.id)
        report = await asyncio.wait_for(end(one, held), PATIENCE)
        assert report.completed == 1
    assert await one.archived(held.id) is not None


async def test_a_signal_of_an_older_snapshot_is_refused(one: Session, two: Session) -> None:
    """In REPEATABLE READ it cannot see what was parked meanwhile: it must be retried."""
    for existing in (False, True):
        held = await started(one)
        if existing:
            await one.connection.execute("insert into holdfast.instances (job_id) values ($1)", held.id)
        with pytest.raises(asyncpg.SerializationError):
            async with two.connection.transaction(isolation="repeatable_read"):
                await two.connection.fetchval("select count(*) from holdfast.inbox")
                await park(one, held, for_signal())
                await signal(two, held.id)
        async with two.connection.transaction(isolation="repeatable_read"):
            assert await signal(two, held.id) == "woken"
        assert await due(one, held.id)
        await one.connection.execute("delete from holdfast.inbox")


async def test_a_park_whose_answer_was_lost_is_confirmed(one: Session) -> None:
    held = await started(one)
    outcome = for_signal(records=(waiting(),))
    await park(one, held, outcome)
    report = await park(one, held, outcome, repeated=True)
    assert (report.parked, report.lost) == (1, [])
    await signal(one, held.id)
    (again,) = await claim(one, "w2")
    report = await park(one, held, outcome, repeated=True)
    assert (report.parked, report.lost) == (1, []), "it was parked, and has been claimed since"
    report = await park(one, held, outcome)
    assert (report.parked, report.lost) == (0, [held])
    await end(one, again)
    report = await park(one, held, outcome, repeated=True)
    assert (report.parked, report.lost) == (0, [held]), "nothing is left to tell"


async def test_a_stale_worker_parks_nothing(one: Session) -> None:
    await start(one, 2)
    first, second = await claim(one)
    first.generation += 1
    report = await ending.write(one, [(first, for_signal(records=(step(),))), (second, for_signal())])
    assert (report.parked, report.lost) == (1, [first])
    assert await one.connection.fetchval("select count(*) from holdfast.steps") == 0
    assert (await one.row(first.id))["status"] == "processing"


async def test_a_row_that_is_locked_is_parked_later(one: Session, two: Session) -> None:
    """By a renewal, most likely. One that stays locked comes back, and holds up no other."""
    await start(one, 2)
    first, second = await claim(one)
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", first.id)
        report = await asyncio.wait_for(ending.write(one, [(first, for_signal()), (second, for_signal())]), PATIENCE)
        assert (report.parked, report.again, report.lost) == (1, [first], [])
    assert (await park(one, first, for_signal())).parked == 1


async def test_it_wakes_at_its_earliest_timer(one: Session) -> None:
    held = await started(one)
    await park(one, held, Parked(0, ("signal:paid", "timer:nap"), (sleeping(60),), delay=60))
    row, kept = await one.row(held.id), await instance(one, held.id)
    wake_at = await one.connection.fetchval("select wake_at from holdfast.steps")
    assert row["available_at"] == kept["wake_at"] == wake_at
    assert kept["waits"] == ["signal:paid", "timer:nap"]
    await signal(one, held.id)
    (held,) = await claim(one)
    await park(one, held, Parked(1, ("timer:nap",), delay=3600, wake_at=wake_at))
    assert (await one.row(held.id))["available_at"] == wake_at
    (held,) = await _at(one, wake_at)
    await park(one, held, Parked(1, ('odd "na\\me"',), wake_at=wake_at - timedelta(days=1)))
    assert (await instance(one, held.id))["waits"] == ['odd "na\\me"']
    assert await due(one, held.id), "what is due already is not put into the past"
    assert (await one.row(held.id))["available_at"] > wake_at - timedelta(hours=1)


async def _at(one: Session, instant: object) -> list[Claim]:
    seconds = await one.connection.fetchval(
        "select extract(epoch from $1::timestamptz - clock_timestamp())::float8", instant
    )
    await move_clock(one.connection, seconds + 0.01)
    return await claim(one)


# At the same time

Sending = Callable[[Session, UUID], Awaitable[object]]
Parking = Callable[[Session, Claim], Awaitable[object]]


async def _park(one: Session, held: Claim) -> None:
    await park(one, held, for_signal(records=(waiting(),)))


async def _send(two: Session, id: UUID) -> None:
    await signal(two, id)


async def race(one: Session, two: Session, runs: int, existing: bool, parking: Parking, sending: Sending) -> int:
    """Park and signal each of so many instances at the same time; return how many wait with a signal unseen.

    Some signals are rolled back, some are sent twice.
    """
    chance = random.Random(existing)
    await start(one, runs)
    claims = await claim(one, limit=runs)
    assert len(claims) == runs
    if existing:
        await one.connection.execute("insert into holdfast.instances (job_id) select id from holdfast.inbox")
    committed = []

    async def park_it(held: Claim) -> None:
        await asyncio.sleep(chance.random() * 0.004)
        await parking(one, held)

    async def send_it(held: Claim) -> None:
        await asyncio.sleep(chance.random() * 0.004)
        fate = chance.random()
        with suppress(ZeroDivisionError):
            async with two.connection.transaction():
                await sending(two, held.id)
                await asyncio.sleep(chance.random() * 0.002)
                if fate < 0.15:
                    raise ZeroDivisionError
        if fate >= 0.15:
            committed.append(held.id)
        if fate > 0.9:
            async with two.connection.transaction():
                await sending(two, held.id)

    for held in claims:
        await asyncio.gather(park_it(held), send_it(held))
    assert runs * 0.6 < len(committed) < runs
    asleep = "select id from holdfast.inbox where status = 'pending' and available_at > now() + interval '1 minute'"
    lost = {row["id"] for row in await one.connection.fetch(asleep)} & set(committed)
    assert await one.connection.fetchval("select count(*) from holdfast.inbox where status = 'pending'") == runs
    return len(lost)


WIDER = "perform pg_sleep(random() * 0.003);"


async def widen(one: Session, function: str, *places: str) -> None:
    """Let the function pause before each of these places, so that more fits between its statements."""
    text = await one.connection.fetchval(f"select pg_get_functiondef('holdfast.{function}'::regproc)")
    for place in places:
        assert text.count(place) == 1, place
        text = text.replace(place, f"{WIDER}\n{place}")
    await one.connection.execute(text)


@pytest.mark.parametrize("existing", [False, True], ids=["first", "later"])
async def test_no_signal_is_lost_while_an_instance_is_parked(one: Session, two: Session, existing: bool) -> None:
    await widen(
        one, "park_instances", "if array_position(mails, null)", "select array_agg(i.it) into held",
        "return query\n    with wanted",
    )  # fmt: skip
    await widen(one, "signal", "insert into holdfast.signals", "-- In statements of their own")
    assert await race(one, two, 300, existing, _park, _send) == 0


CHECK_THEN_PARK = """
do $$
declare seen bigint;
begin
    select coalesce(max(mail), 0) into seen from holdfast.instances where job_id = '{id}';
    perform pg_sleep(random() * 0.003);
    if seen = 0 then
        insert into holdfast.instances as s (job_id, parked_generation, waits) values ('{id}', 1, array['signal:paid'])
        on conflict (job_id) do update set parked_generation = 1, waits = array['signal:paid'];
    end if;
    update holdfast.inbox
    set status = 'pending', claimed_by = null,
        available_at = clock_timestamp() + case when seen = 0 then interval '36525 days' else interval '0' end
    where id = '{id}' and lease_generation = 1 and status = 'processing';
end $$
"""


async def test_checking_the_mail_before_parking_loses_signals(one: Session, two: Session) -> None:
    """The broken form, so that the test above can fail."""

    async def check_then_park(one: Session, held: Claim) -> None:
        await one.connection.execute(CHECK_THEN_PARK.format(id=held.id))

    assert await race(one, two, 100, True, check_then_park, _send) > 0


WAKE_AT_ONCE = """
with mail as (
    update holdfast.instances set mail = mail + 1 where job_id = '{id}' returning job_id, parked_generation
)
update holdfast.inbox i set available_at = clock_timestamp()
from mail m
where i.id = m.job_id and i.status = 'pending' and i.lease_generation = m.parked_generation
"""


async def test_waking_in_the_statement_that_locks_loses_signals(one: Session, two: Session) -> None:
    """The broken form: the statement waits for the parking, and its snapshot of the inbox is from before."""
    await widen(one, "park_instances", "if array_position(mails, null)", "return query\n    with wanted")

    async def wake_at_once(two: Session, id: UUID) -> None:
        await two.connection.execute(WAKE_AT_ONCE.format(id=id))

    assert await race(one, two, 100, True, _park, wake_at_once) > 0
