"""A transaction that stays open, as a forgotten one does, and keeps vacuum from removing dead rows."""

from __future__ import annotations

import contextlib
import time

from holdfast.db.database import Connection

from .scene import Pinned
from .stage import Stage

# A snapshot of its own, and no lock on anything. Our sessions would be ended after a minute of silence.
_OPEN = """
    begin isolation level repeatable read, read only;
    set local idle_in_transaction_session_timeout = 0;
    set local application_name = 'holdfast demo: a forgotten transaction'
"""


class Pin:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._connection: Connection | None = None
        self._pid = 0
        self._since = 0.0

    @property
    def held(self) -> bool:
        return self._connection is not None

    async def hold(self) -> None:
        connection = await self._stage.connect()
        try:
            await connection.execute(_OPEN)
            self._pid = await connection.fetchval("select pg_backend_pid() from pg_current_snapshot()")
        except BaseException:
            connection.terminate()
            raise
        self._connection, self._since = connection, time.monotonic()

    async def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # somebody may have ended the session, as the doctor advises
                await connection.execute("rollback")
                await connection.close()
            connection.terminate()

    async def look(self, connection: Connection) -> Pinned | None:
        """What it holds back, as another session sees it; None if it holds nothing."""
        if self._connection is None:
            return None
        xids = await connection.fetchval("select age(backend_xmin) from pg_stat_activity where pid = $1", self._pid)
        if xids is None:
            await self.release()
            return None
        dead = await connection.fetchval(
            "select n_dead_tup from pg_stat_all_tables where schemaname = $1 and relname = 'inbox'", self._stage.schema
        )
        return Pinned(self._pid, time.monotonic() - self._since, xids, dead or 0)
