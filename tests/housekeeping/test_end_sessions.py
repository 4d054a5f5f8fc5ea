"""Whose session ends before a sweep, and whose does not."""

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.housekeeping.conftest import AT_ONCE
from tests.housekeeping.rows import claimed
from tests.support.inbox import Session
from tests.support.pooler import database_at, direct
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast.housekeeping.loop import Housekeeper
from holdfast.inbox import sessions
from holdfast.model.job import Hold

GENERATION = 4


def name_of(id: UUID, generation: int) -> str:
    return sessions.name(Hold("w1", id, generation))


"""Of the rows that `claimed` makes."""


@pytest.fixture
async def house(inbox: Inbox) -> AsyncIterator[Housekeeper]:
    house = Housekeeper(database_at(inbox.url), AT_ONCE, grace=0)
    yield house
    house._drop()


@contextmanager
def named(inbox: Inbox, name: str, **options: Any) -> Iterator[psycopg.Connection[Any]]:
    """A session in a transaction, under this name."""
    connection = psycopg.connect(direct(inbox.url), **options)
    try:
        connection.execute("select set_config('application_name', %s, true)", [name])
        yield connection
    finally:
        connection.close()


def lives(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


async def test_the_owner_s_goes_and_no_other(inbox: Inbox, house: Housekeeper, database_url: str) -> None:
    expired, renewed = claimed(inbox), claimed(inbox, left="1 minute")
    others = [
        name_of(expired, GENERATION - 1),
        name_of(expired, GENERATION + 1),
        name_of(expired, 41),
        name_of(renewed, GENERATION),
        f"holdfast job {expired}",
        "holdfast job by another's rules",
        "holdfast handler",
    ]
    with ExitStack() as stack:
        left_alone = [stack.enter_context(named(inbox, name)) for name in others]
        elsewhere = Inbox(database_url)  # such as a copy of this database
        left_alone.append(stack.enter_context(named(elsewhere, name_of(expired, GENERATION))))
        owner = stack.enter_context(named(inbox, name_of(expired, GENERATION)))
        assert (await house.round())["sweep"] == 1
        await until(lambda: not lives(owner))
        assert all(lives(other) for other in left_alone)


async def test_one_that_has_completed_and_does_not_commit_is_gone_before_the_sweep(
    inbox: Inbox, house: Housekeeper
) -> None:
    swept = []
    for _ in range(5):  # a busy machine may take longer to end a session than a round waits for it
        id = claimed(inbox)
        with named(inbox, name_of(id, GENERATION)) as owner:
            owner.execute("delete from holdfast.inbox where id = %s", [id])
            swept.append((await house.round())["sweep"])
            await until(lambda owner=owner: not lives(owner))  # type: ignore[misc]
        if swept[-1] == 1:
            return
        inbox.rows("delete from holdfast.inbox")
    raise AssertionError(f"{swept}: always in the next round")


async def test_one_whose_lease_is_being_renewed_goes_on(inbox: Inbox, house: Housekeeper) -> None:
    id = claimed(inbox)
    with named(inbox, name_of(id, GENERATION)) as owner, named(inbox, "holdfast keeper") as keeper:
        keeper.execute("update holdfast.inbox set lease_expires_at = now() + interval '1 minute'")
        assert (await house.round())["sweep"] == 0
        keeper.commit()
        assert (await house.round())["sweep"] == 0
        assert lives(owner)


async def test_one_that_we_may_not_end_is_no_error(inbox: Inbox, one: Session) -> None:
    id, role = claimed(inbox), f"sweeper_{secrets.token_hex(4)}"
    inbox.rows(f"create role {role}")
    inbox.rows(f"grant usage on schema holdfast to {role}")
    inbox.rows(f"grant select, update on holdfast.inbox to {role}")
    try:
        with named(inbox, name_of(id, GENERATION)) as owner:
            for room, arguments in (("housekeeping", await _all_of_time(one)), ("inbox", ([id], [GENERATION]))):
                async with one.connection.transaction():
                    await one.connection.execute(f"set local role {role}")
                    assert await one.run(room, "end_sessions", *arguments) == []
            assert lives(owner)
            assert [row[0] for row in await one.run("inbox", "end_sessions", [id], [GENERATION])] == [
                owner.info.backend_pid
            ]
            await until(lambda: not lives(owner))
    finally:
        inbox.rows(f"drop owned by {role}")
        inbox.rows(f"drop role {role}")


async def test_what_expired_is_asked_first(inbox: Inbox, one: Session) -> None:
    """With nothing expired, nobody reads what the sessions of the server are doing."""
    assert "never executed" in await _reading(one)
    claimed(inbox)
    assert "never executed" not in await _reading(one)


async def _all_of_time(one: Session) -> tuple[Any, ...]:
    row = await one.connection.fetchrow("select '0001-01-01'::timestamptz, clock_timestamp()")
    assert row is not None
    return row[0], UUID(int=0), row[1], 1000


async def _reading(one: Session) -> str:
    """What the plan says of reading the sessions."""
    sql = one.database.sql("housekeeping", "end_sessions")
    async with one.connection.transaction():
        rows = await one.connection.fetch(f"explain (analyze, timing off) {sql}", *await _all_of_time(one))
    (line,) = (row[0] for row in rows if "pg_stat_get_activity" in row[0])
    return str(line)


def test_names_fit(inbox: Inbox) -> None:
    name = name_of(UUID(int=2**128 - 1), 10**13 - 1)
    with named(inbox, name) as session:
        row = session.execute("show application_name").fetchone()
        assert row is not None
        assert row[0] == name
