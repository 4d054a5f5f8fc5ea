"""A first try that comes late, not never: whatever it meets when it goes on, there is one job (P1, P4).

The server's session is stopped for real, or its packet is held up on the wire; the client loses touch and asks again;
the job runs and ends; then the first try goes on.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import installation
from tests.support.inbox import session, until
from tests.support.proxy import Proxy, proxied
from tests.support.waiting import until_blocked

from holdfast import Job, Task
from holdfast.housekeeping.chores import Turn, forget
from holdfast.model.ids import new_id
from holdfast.model.occurrences import Occurrences

pytestmark = pytest.mark.direct  # which session a pooler gives to a statement is not to be foreseen

GATE = 4711
Ask = Callable[[Task[..., Any]], Coroutine[Any, Any, list[Job]]]


async def one(task: Task[..., Any]) -> list[Job]:
    return [await task.enqueue("late")]


async def keyed(task: Task[..., Any]) -> list[Job]:
    return [await task.options(idempotency_key="late").enqueue("late")]


async def own_id(task: Task[..., Any]) -> list[Job]:
    return [await task.options(id=new_id()).enqueue("late")]


async def many(task: Task[..., Any]) -> list[Job]:
    return await task.enqueue_many([{"word": "late"}] * 3, copy=False)


async def copied(task: Task[..., Any]) -> list[Job]:
    return await task.enqueue_many([{"word": "late"}] * 3, copy=True)


ASKS: list[Ask] = [one, keyed, own_id, many, copied]


def each(asks: list[Ask]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("ask", asks, ids=lambda ask: ask.__name__)


@pytest.fixture
async def proxy(migrated_url: str) -> AsyncIterator[Proxy]:
    async with proxied(migrated_url) as proxy:
        yield proxy


@pytest.fixture
async def mark(proxy: Proxy, inbox: Inbox) -> AsyncIterator[Task[..., Any]]:
    """A task whose application has a connection, and its statements prepared there."""
    async with installation(proxy.url) as hf:

        @hf.task(name="job")
        def mark(word: str) -> None: ...

        for ask in ASKS:
            await ask(mark)
        await inbox.connection.execute("delete from holdfast.inbox; delete from holdfast.dedupe")
        yield mark


async def session_of_the_application(inbox: Inbox) -> int:
    return int(
        await inbox.connection.fetchval(
            "select pid from pg_stat_activity"
            " where datname = current_database() and application_name = 'holdfast calls'"
        )
    )


@asynccontextmanager
async def gate(inbox: Inbox, pid: int, moment: str) -> AsyncIterator[None]:
    """Keep this one session from going on at the given moment of its inserts, until the end of the block."""
    await inbox.connection.execute(f"""
        create or replace function public.gate() returns trigger language plpgsql as $$
        begin
            if pg_backend_pid() = {pid} then
                perform pg_advisory_lock_shared({GATE}::bigint);
                perform pg_advisory_unlock_shared({GATE}::bigint);
            end if;
            return new;
        end $$;
        create trigger gate {moment} insert on holdfast.inbox for each row execute function public.gate();
        select pg_advisory_lock({GATE}::bigint);
    """)
    try:
        yield
    finally:
        await inbox.connection.execute(f"select pg_advisory_unlock({GATE}::bigint)")
        await until(inbox.connection, "select not exists (select from pg_stat_activity where pid = $1)", pid)
        await inbox.connection.execute("drop trigger gate on holdfast.inbox")


@asynccontextmanager
async def stopped(pid: int) -> AsyncIterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def run_all(url: str) -> list[tuple[UUID, int]]:
    """Claim and complete everything, as a worker would; returns ids and generations."""
    async with session(url) as worker:
        claims = await worker.claim()
        if claims:
            arguments = [claim.id for claim in claims], [claim.generation for claim in claims]
            await worker.inbox("complete", *arguments, [], [], [], "w1", [])
        return sorted((claim.id, claim.generation) for claim in claims)


@each([one, own_id, many, copied])
async def test_a_session_that_stood_still_before_its_insert_adds_nothing(
    mark: Task[..., Any], ask: Ask, proxy: Proxy, inbox: Inbox, migrated_url: str
) -> None:
    pid = await session_of_the_application(inbox)
    async with gate(inbox, pid, "before"):
        asking = asyncio.create_task(ask(mark))
        await until_blocked(inbox.connection)
        async with stopped(pid):
            proxy.drop()
            jobs = await asking
            assert await run_all(migrated_url) == sorted((job.id, 1) for job in jobs)
    assert await run_all(migrated_url) == [], "handed out a second time"
    assert await inbox.count("holdfast.archive") == len(jobs)


@each(ASKS)
async def test_a_session_that_stood_still_after_its_insert_is_waited_for(
    mark: Task[..., Any], ask: Ask, proxy: Proxy, inbox: Inbox, migrated_url: str
) -> None:
    """It had looked, and nobody had asked again: the repetition meets its row."""
    pid = await session_of_the_application(inbox)
    async with gate(inbox, pid, "after"):
        asking = asyncio.create_task(ask(mark))
        await until_blocked(inbox.connection)
        async with stopped(pid):
            proxy.drop()
            await until_blocked(inbox.connection, 2)
            assert not asking.done()
    jobs = await asking
    assert await run_all(migrated_url) == sorted((job.id, 1) for job in jobs)
    assert await run_all(migrated_url) == []
    assert await inbox.count("holdfast.archive") == len(jobs)


@each(ASKS)
async def test_a_packet_that_comes_late_adds_nothing(
    mark: Task[..., Any], ask: Ask, proxy: Proxy, inbox: Inbox, migrated_url: str
) -> None:
    pid = await session_of_the_application(inbox)
    proxy.hold_back(b"late")
    jobs = await ask(mark)
    assert proxy.held_back
    assert await run_all(migrated_url) == sorted((job.id, 1) for job in jobs)
    proxy.deliver()
    await until(inbox.connection, "select not exists (select from pg_stat_activity where pid = $1)", pid)
    assert await run_all(migrated_url) == [], "handed out a second time"
    assert await inbox.count("holdfast.archive") == len(jobs)


async def test_a_mark_is_forgotten_after_a_day(inbox: Inbox, migrated_url: str) -> None:
    await inbox.connection.execute("""
        delete from holdfast.asked_again;
        insert into holdfast.asked_again (id, at)
        values (holdfast.uuidv7(), now() - interval '25 hours'), (holdfast.uuidv7(), now() - interval '23 hours')
    """)
    async with session(migrated_url) as housekeeper:
        await forget(Turn(housekeeper.connection, housekeeper.database, Occurrences(), None, datetime.now(UTC)))
    assert await inbox.count("holdfast.asked_again") == 1
