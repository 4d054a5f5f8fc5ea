"""An ear on the channel of the installation, and the flags that are up."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.support.workers import Inbox

FLAG = """
    select count(*) from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.mode = 'ShareLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and (l.classid::bigint << 32 | l.objid::bigint) = holdfast.flag(%s, %s)
"""


class Ear:
    """What is said on the channel of the installation."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.heard: list[str] = []
        self.more: list[str] = []
        """What was said at the same time about further jobs."""

    def hear(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self.heard.append(str(payload))

    async def told(self) -> list[str]:
        """All wake-ups until now, without the listeners' probes. Our own word comes after all that was said before."""
        await self._connection.execute("select pg_notify(holdfast.channel(), 'end')")
        async with asyncio.timeout(30):
            while "end" not in self.heard:
                await asyncio.sleep(0.001)
        told, self.heard = self.heard[: self.heard.index("end")], []
        self.more = [payload for payload in told if payload.startswith("+")]
        return [payload for payload in told if payload.startswith(":")]


@pytest.fixture
async def ear(inbox: Inbox) -> AsyncIterator[Ear]:
    connection = await asyncpg.connect(inbox.url)
    ear = Ear(connection)
    await connection.add_listener("holdfast.wake", ear.hear)
    yield ear
    connection.terminate()


class Flags:
    """Flags as a listener would hold them, in a session of the test's own."""

    def __init__(self, inbox: Inbox, connection: Any) -> None:
        self._inbox = inbox
        self._connection = connection

    async def up(self, state: str, queue: str = "default", schema: str = "holdfast") -> None:
        await self._connection.execute(f"select pg_advisory_lock_shared({schema}.flag('{state}', '{queue}'))")

    async def down(self, state: str, queue: str = "default") -> None:
        await self._connection.execute(f"select pg_advisory_unlock_shared(holdfast.flag('{state}', '{queue}'))")

    def count(self, state: str, queue: str = "default") -> int:
        """How many sessions hold this flag."""
        return int(self._inbox.one(FLAG, state, queue))


@pytest.fixture
async def flags(inbox: Inbox) -> AsyncIterator[Flags]:
    connection = await asyncpg.connect(inbox.url)
    yield Flags(inbox, connection)
    connection.terminate()
