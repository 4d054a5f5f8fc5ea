"""Waiting for a fact, not for a time."""

import asyncio
import time
from collections.abc import Callable

import asyncpg

from tests.support.stopwatch import Stopwatch, look

PATIENCE = 25.0
"""Seconds: far more than anything takes, and less than the 30 after which a worker's patrol finds what others forgot.

Where something shorter is promised, a test says so.
"""


def wait_until(fact: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Return as soon as `fact` holds; fail if it does not within `seconds`, without those that the machine took."""
    if fact():
        return
    watch = Stopwatch()
    while not fact():
        check(watch, fact, seconds)
        time.sleep(pause(watch.elapsed))


def pause(waited: float) -> float:
    """Seconds until the next look: a tenth of the wait so far. A look is often a question to the database, and a
    hundred of them a second take CPU time from what is waited for."""
    return min(max(waited / 10, 0.01), 0.03)


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
    if await asyncio.to_thread(fact):
        return
    watch = await asyncio.to_thread(Stopwatch)
    while not await asyncio.to_thread(fact):
        await asyncio.to_thread(check, watch, fact, seconds)
        await asyncio.sleep(pause(watch.elapsed))


def check(watch: Stopwatch, fact: Callable[[], bool], seconds: float) -> None:
    look()
    if watch.elapsed > seconds:
        watch.check(seconds, f"{fact} does not hold; waiting for it")
