"""Where a turn takes place: its database, and the server's process if that can be looked at."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from ..processes import cpu

POSTMASTER = "BENCH_POSTMASTER"


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    size: str
    postmaster: int | None

    @classmethod
    def here(cls, size: str) -> Place:
        """As the environment says; an address may hold a password, so it is no argument."""
        postmaster = os.environ.get(POSTMASTER)
        return cls(os.environ["HOLDFAST_DATABASE_URL"], size, int(postmaster) if postmaster else None)

    def used(self, supervisor: int | None = None) -> float | None:
        """Seconds of CPU so far, of a worker or else of this process, and of the server."""
        if self.postmaster is None:
            return None
        return cpu(self.postmaster) + (cpu(supervisor) if supervisor else time.process_time())

    def per_job(self, before: float | None, supervisor: int | None, jobs: int) -> float | None:
        """Microseconds of CPU a job since then."""
        after = self.used(supervisor)
        return None if before is None or after is None else (after - before) / jobs * 1e6

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()
