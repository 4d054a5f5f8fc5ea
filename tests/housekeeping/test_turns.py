"""Whose turn a chore is, how long a run of it goes on, and when it is too soon to take anything from anyone."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from tests.housekeeping.conftest import AT_ONCE, HOUR, Keep
from tests.housekeeping.rows import claimed, count, many_claimed
from tests.support.inbox import until, until_waiting
from tests.support.pooler import database_at, direct
from tests.support.waiting import PATIENCE
from tests.support.workers import Inbox

from holdfast.db.database import Database
from holdfast.errors import Unreachable
from holdfast.housekeeping import chores, loop
from holdfast.housekeeping.chores import Chore, Done, Turn, sweep


async def nothing(turn: Turn) -> Done:
    return Done(0)


# One run per interval


async def test_one_run_per_interval_across_three_workers(inbox: Inbox, keep: Keep) -> None:
    # Requirement 73.
    runs = 0

    async def count_run(turn: Turn) -> Done:
        nonlocal runs
        runs += 1
        return Done(0)

    houses = [keep(HOUR, 0, [Chore("counted", 0, count_run)]) for _ in range(3)]

    async def all_try() -> None:
        for _ in range(10):
            await asyncio.gather(*(house.round() for house in houses))

    await all_try()
    assert runs == 1
    inbox.rows("update holdfast.chores set ran_at = ran_at - interval '1 hour' where name = 'counted'")
    await all_try()
    assert runs == 2


class SlowToAsk(Database, frozen=True):
    """Waits at a gate, an advisory lock, before it asks for a chore's lock."""

    def sql(self, room: str, name: str) -> str:
        return super().sql(room, name).replace("pg_try_advisory_xact_lock(", "public.slow_try(")


SLOW_TRY = """
    create function public.slow_try(key bigint) returns boolean language plpgsql volatile as $$
    begin
        perform pg_advisory_xact_lock(1);
        return pg_try_advisory_xact_lock(key);
    end $$
"""


async def test_who_asks_while_another_has_the_turn_does_not_run_it_again(inbox: Inbox, keep: Keep) -> None:
    """It finds the lock free, and must not believe what it read before that."""
    inbox.rows(SLOW_TRY)
    database = database_at(inbox.url)
    slow = SlowToAsk(database.url, database.schema, database.pooler)
    late, prompt = (keep(HOUR, 0, [Chore("counted", 0, nothing)], database=d) for d in (slow, database))
    async with await psycopg.AsyncConnection.connect(direct(inbox.url), autocommit=True) as gate:
        await gate.execute("select pg_advisory_lock(1)")
        asking = asyncio.create_task(late.round())
        watching = await asyncpg.connect(direct(inbox.url))
        await until_waiting(watching, 0)
        await watching.close()
        assert await prompt.round() == {"counted": 0}
    assert await asking == {}


async def test_a_chore_that_failed_has_had_its_turn(inbox: Inbox, keep: Keep) -> None:
    tries = 0

    async def fail(turn: Turn) -> Done:
        nonlocal tries
        tries += 1
        await turn.connection.execute("select 1 / 0")
        return Done(0)

    inbox.rows("insert into holdfast.chores (name, floor) values ('fails', '2020-01-01Z')")
    houses = [keep(HOUR, 0, [Chore("fails", 0, fail), Chore("works", 0, nothing)]) for _ in range(3)]
    assert [await house.round() for house in houses] == [{"works": 0}, {}, {}]
    assert tries == 1
    (note,) = inbox.rows("select * from holdfast.chores where name = 'fails'")
    assert "division by zero" in note["result"]["error"]
    assert note["floor"] is not None, "the next run starts where this one should have"
    assert inbox.one("select count(*) from pg_locks where locktype = 'advisory'") == 0


# Until nothing is left


@pytest.mark.parametrize("rows", [2500, 2000])
async def test_a_sweep_goes_on_until_nothing_is_left(inbox: Inbox, keep: Keep, rows: int) -> None:
    many_claimed(inbox, rows)
    assert (await keep(HOUR).round())["sweep"] == rows
    assert count(inbox, "processing") == 0
    assert inbox.one("select floor > now() - interval '2 minutes' from holdfast.chores where name = 'sweep'")
    assert inbox.one("select result -> 'rows' from holdfast.chores where name = 'sweep'") == rows


@pytest.fixture
def batches_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no sweep that starts from the very beginning unless it must."""
    monkeypatch.setattr(chores, "BATCH", 10)
    monkeypatch.setattr(chores, "WHOLE_SWEEPS", 0)


@pytest.mark.usefixtures("batches_of_ten")
async def test_a_sweep_that_ended_after_a_full_batch_leaves_nothing_behind_its_floor(inbox: Inbox, keep: Keep) -> None:
    await keep().round()  # from here on there is a floor
    inbox.rows("update holdfast.chores set floor = now() - interval '3 hours'")
    many_claimed(inbox, 25, "-2 hours")
    batches = 0

    async def dies_after_the_first(turn: Turn) -> Done:
        nonlocal batches
        batches += 1
        if batches > 1:
            turn.connection.terminate()
        return await sweep(turn)

    with pytest.raises(Unreachable):
        await keep(AT_ONCE, 0, [Chore("sweep", 0, dies_after_the_first, recovers=True)]).round()
    assert count(inbox, "processing") == 15
    assert (await keep().round())["sweep"] == 15


@pytest.mark.usefixtures("batches_of_ten")
async def test_more_locked_rows_than_a_batch_neither_hide_the_others_nor_are_lost(inbox: Inbox, keep: Keep) -> None:
    many_claimed(inbox, 25, "-2 minutes", "locked")
    many_claimed(inbox, 12, "-90 seconds")
    house = keep()
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as owner:
        await owner.execute("select from holdfast.inbox where claimed_by = 'locked' for update")
        async with asyncio.timeout(30):
            assert (await house.round())["sweep"] == 12
        assert count(inbox, "processing") == 25
    assert (await house.round())["sweep"] == 25, "although their leases ran out long before"


async def endless(turn: Turn) -> Done:
    return Done(1, rest="more")


async def test_a_run_without_end_lets_the_others_have_their_turn_and_goes_on(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SLICE", 1.0)
    house = keep(HOUR, 0, [Chore("endless", 0, endless), Chore("other", 0, nothing)])
    first = await house.round()
    assert first["endless"] > 1 and first["other"] == 0
    second = await house.round()
    assert second.keys() == {"endless"}, "the other is not due"


async def test_a_run_that_another_has_taken_over_is_not_ours_any_more(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SLICE", 0)
    ours, theirs = (keep(seconds, 0, [Chore("endless", 0, endless)]) for seconds in (HOUR, AT_ONCE))
    assert await ours.round() == {"endless": 1}
    assert await ours.round() == {"endless": 1}
    assert await theirs.round() == {"endless": 1}
    assert await ours.round() == {}
    assert await theirs.round() == {"endless": 1}


async def test_what_a_run_left_is_due_in_the_next_round_of_anyone(inbox: Inbox, keep: Keep) -> None:
    """Not only after the chore's own interval, which may be an hour."""
    inbox.rows(
        "insert into holdfast.chores values ('hourly', now() - interval '11 seconds', null, %s::jsonb)",
        '{"rows": 1, "more": true}',
    )
    house = keep(10.0, 0, [Chore("hourly", HOUR, nothing)])
    assert await house.round() == {"hourly": 0}
    inbox.rows("update holdfast.chores set ran_at = now() - interval '11 seconds'")
    assert await house.round() == {}


# Silence


async def test_who_falls_silent_in_the_middle_of_a_chore_loses_its_turn(inbox: Inbox, keep: Keep) -> None:
    turns: list[Turn] = []

    async def silent_at_first(turn: Turn) -> Done:
        turns.append(turn)
        if len(turns) == 1:
            await asyncio.Event().wait()
        return Done(7)

    silent, other = (keep(AT_ONCE, 0, [Chore("silent", 0, silent_at_first)], idle=3) for _ in range(2))
    first = asyncio.create_task(silent.round())
    while not turns:
        await asyncio.sleep(0.001)
    assert await other.round() == {}, "it has the turn"
    while not (done := await other.round()):
        await asyncio.sleep(0.01)
    assert done == {"silent": 7}
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


# Too soon


async def test_no_sweep_soon_after_a_connect_or_a_server_start(inbox: Inbox, keep: Keep) -> None:
    # After an outage every lease is out while the work still runs: its keepers come first.
    id = claimed(inbox)
    house = keep(AT_ONCE, HOUR)
    assert "sweep" not in await house.round()
    house._back_at -= 2 * HOUR  # connected long ago, to a server that started just now
    assert "sweep" not in await house.round()
    assert inbox.status(id) == "processing"
    house._grace = 0
    assert (await house.round())["sweep"] == 1


async def test_no_sweep_soon_after_an_answer_that_was_held_up(inbox: Inbox, keep: Keep) -> None:
    # So a pooler hides an outage from us: no connection breaks, and the answer comes when the server is back.
    id = claimed(inbox)
    house = keep(AT_ONCE, 2)
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as outage:
        await outage.execute("lock table holdfast.chores")
        round = asyncio.create_task(house.round())
        await asyncio.sleep(2.3)  # the outage itself: longer than the grace
        assert not round.done()
    assert "sweep" not in await round
    assert inbox.status(id) == "processing"
    while "sweep" not in await house.round():
        await asyncio.sleep(0.01)
    assert inbox.status(id) == "pending"


async def test_no_sweep_by_a_turn_that_was_held_up(inbox: Inbox, keep: Keep) -> None:
    """The outage comes between the question which chores are due and the sweep's own turn."""
    id = claimed(inbox)
    async with await psycopg.AsyncConnection.connect(direct(inbox.url)) as outage:
        locking: list[asyncio.Task[Any]] = []

        async def outage_follows(turn: Turn) -> Done:
            locking.append(asyncio.create_task(outage.execute("lock table holdfast.chores")))
            watching = await asyncpg.connect(direct(inbox.url))
            await until_waiting(watching, outage.info.backend_pid)
            await watching.close()
            return Done(0)

        house = keep(AT_ONCE, 2, [Chore("before", 0, outage_follows), Chore("sweep", 0, sweep, recovers=True)])
        await house._connect()
        house._back_at -= 2  # past the grace of the connect
        round = asyncio.create_task(house.round())
        while not locking:
            await asyncio.sleep(0.01)
        await locking[0]
        await asyncio.sleep(2.3)  # the outage itself: longer than the grace
        assert not round.done()
    assert await round == {"before": 0}
    assert inbox.status(id) == "processing"


async def test_a_sweep_that_an_outage_held_back_takes_nothing_that_ran_out_meanwhile(inbox: Inbox, keep: Keep) -> None:
    # It had its turn in good time, and its statement comes when the link speaks again.
    long_out, just_out = claimed(inbox), claimed(inbox)
    inbox.rows("update holdfast.inbox set lease_expires_at = now() + interval '1 hour' where id = %s", just_out)

    async def held_back(turn: Turn) -> Done:
        inbox.rows("update holdfast.inbox set lease_expires_at = clock_timestamp() where id = %s", just_out)
        return await sweep(turn)

    house = keep(AT_ONCE, 0, [Chore("sweep", 0, held_back, recovers=True)])
    assert (await house.round())["sweep"] == 1
    assert [inbox.status(id) for id in (long_out, just_out)] == ["pending", "processing"]


@pytest.mark.direct
@pytest.mark.parametrize(("interval", "grace"), [(0.4, 1.0), (3.0, 1.0)])
async def test_sweeps_run_even_if_something_cuts_the_idle_connection(
    inbox: Inbox, keep: Keep, interval: float, grace: float
) -> None:
    """A session that was ended while it was idle is no outage: the server was there all the time."""
    name = inbox.one("select current_database()")
    inbox.rows(f"alter database {name} set idle_session_timeout = '200ms'")
    id = claimed(inbox)
    running = asyncio.create_task(keep(interval, grace).run())
    try:
        async with asyncio.timeout(2 * (interval + grace) + PATIENCE):
            while inbox.status(id) == "processing":
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def cut(inbox: Inbox, house: Any) -> None:
    """End the housekeeper's idle connection, and wait until it knows."""
    connection = house._connection
    connection.terminate()
    while not connection.is_closed():
        await asyncio.sleep(0.001)


async def ready(inbox: Inbox, keep: Keep, grace: float = 5.0) -> tuple[Any, UUID]:
    """A housekeeper past its grace period that would sweep a row now. The period is long, so that a busy machine does
    not get past it once more, and this one has been connected for longer."""
    house = keep()
    await house.round()
    house._grace = grace
    house._back_at -= 2 * grace
    while "sweep" not in await house.round():  # the server may have been started just now
        await asyncio.sleep(0.02)
    return house, claimed(inbox)


async def test_a_lost_idle_connection_costs_no_sweep(inbox: Inbox, keep: Keep) -> None:
    house, _ = await ready(inbox, keep)
    await cut(inbox, house)
    assert (await house.round())["sweep"] == 1


async def test_after_a_refused_connect_keepers_come_first(inbox: Inbox, keep: Keep) -> None:
    house, _ = await ready(inbox, keep)
    await cut(inbox, house)
    there, house._database = house._database, Database("postgresql://127.0.0.1:1/nowhere")
    with pytest.raises(Unreachable):
        await house.round()
    house._database = there
    assert "sweep" not in await house.round()


async def test_after_a_call_without_an_answer_keepers_come_first(inbox: Inbox, keep: Keep) -> None:
    house, _ = await ready(inbox, keep)

    async def no_answer(turn: Turn) -> Done:
        raise TimeoutError

    mended, house._chores = house._chores, [Chore("silent", 0, no_answer)]
    with pytest.raises(Unreachable):
        await house.round()
    house._chores = mended
    assert "sweep" not in await house.round()


async def test_after_a_long_time_without_an_answer_keepers_come_first(inbox: Inbox, keep: Keep) -> None:
    """The server may have been away for most of it, and every lease be out."""
    house, _ = await ready(inbox, keep)
    await cut(inbox, house)
    house._answered_at -= 1.6 * house._grace
    assert "sweep" not in await house.round()


async def test_on_another_server_keepers_come_first(inbox: Inbox, keep: Keep) -> None:
    """After a failover that a pooler, or luck, hid from us: it may have been up for long."""
    house, _ = await ready(inbox, keep, 2.0)
    house._server = datetime(2020, 1, 1, tzinfo=UTC)
    assert "sweep" not in await house.round()
    while "sweep" not in await house.round():
        await asyncio.sleep(0.02)


# A real pause, as the loop makes it


async def test_what_is_left_is_done_without_waiting_for_the_next_interval(
    inbox: Inbox, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SLICE", 0)
    monkeypatch.setattr(chores, "BATCH", 100)
    inbox.rows(
        "insert into holdfast.dedupe (key, job_id, payload_hash, expires_at)"
        " select n::text, gen_random_uuid(), '', now() - interval '1 s' from generate_series(1, 1000) n"
    )
    running = asyncio.create_task(keep(HOUR).run())
    watching = await asyncpg.connect(direct(inbox.url))
    try:
        await until(watching, "select not exists (select from holdfast.dedupe)")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await watching.close()
