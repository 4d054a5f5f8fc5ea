"""Waiting for a fact, not for a time."""

import asyncio
import time
from collections.abc import Callable

import asyncpg

PATIENCE = 25.0
"""Seconds: far more than anything takes, and less than the 30 after which a worker's patrol finds what others forgot.

Where something shorter is promised, a test says so.
"""


def wait_until(fact: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Return as soon as `fact` holds; fail if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, f"{fact} did not hold within {seconds} s"
        time.sleep(0.01)


async def until_blocked(observer: "asyncpg.Connection[asyncpg.Record]", sessions: int = 1) -> None:
    """Return once so many sessions of this database wait for a lock.

    The observer must not be inside a transaction: there, statistics stand still.
    """
    assert not observer.is_in_transaction()
    async with asyncio.timeout(PATIENCE):
        while True:
            waiting = await observer.fetchval(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            if waiting >= sessions:
                return
            await asyncio.sleep(0.005)


async def until(fact: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """As `wait_until`, asking in a thread so that the event loop goes on."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(fact):
        assert time.monotonic() < deadline, f"{fact} did not hold within {seconds} s"
        await asyncio.sleep(0.01)
