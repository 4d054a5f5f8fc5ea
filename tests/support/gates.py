"""A gate between two steps of a statement: an advisory lock that the statement waits for, and the test holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.inbox import Session, session
from tests.support.pooler import direct


@asynccontextmanager
async def gate(url: str) -> AsyncIterator[Session]:
    """Closed until the end of the block. Its session can watch who waits."""
    async with session(direct(url)) as keeper:
        await keeper.connection.execute("select pg_advisory_lock(1)")
        yield keeper
        await keeper.connection.execute("select pg_advisory_unlock(1)")


WAITS = """
    select exists (
        select from pg_locks l join pg_database d on d.oid = l.database
        where l.locktype = 'advisory' and not l.granted and d.datname = current_database())
"""


async def delay_late_claims(one: Session, before: str) -> None:
    """Let the guarded claims of the worker `late` wait for an advisory lock before this step of theirs."""
    definition = await one.connection.fetchval("select pg_get_functiondef('holdfast.claim_guarded'::regproc)")
    gate = "if worker = 'late' then perform pg_advisory_xact_lock(1); end if;"
    assert definition.count(f"-- {before}") == 1
    await one.connection.execute(definition.replace(f"-- {before}", f"{gate} -- {before}"))
