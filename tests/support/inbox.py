"""Rows in the inbox, and sessions that run the inbox's statements on them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.db import pooler
from holdfast.db.database import PIN_PLANS, Connection, Database
from holdfast.db.link import DEADLINE
from holdfast.inbox import claim as free
from holdfast.inbox import guarded
from holdfast.inbox.claim import Known
from holdfast.model.floor import START, Position
from holdfast.model.job import Claim
from holdfast.model.keys import bucket
from tests.support.pooler import database_at
from tests.support.waiting import PATIENCE

LEASE = 90.0
JOB = {"job": (1, 1)}


class Session:
    """One connection with a worker's planner settings; runs the inbox's statements, in a transaction if asked for."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection

    @property
    def pid(self) -> int:
        """Of the server's session; 0, any, when a pooler gives each transaction another."""
        return 0 if self.database.pooler else int(self.connection.get_server_pid())

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        sql = self.database.sql(room, name)
        if self.database.pooler and not self.connection.is_in_transaction():
            return await pooler.fetch(
                self.connection, f"begin; {PIN_PLANS}", sql, arguments, DEADLINE
            )  # as a Link does
        return list(await self.connection.fetch(sql, *arguments))

    async def inbox(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        return await self.run("inbox", name, *arguments)

    async def claim(
        self,
        worker: str = "w1",
        limit: int = 25,
        *,
        queues: Sequence[str] = ("default",),
        known: Mapping[str, tuple[int, int]] = JOB,
        lease: float = LEASE,
        starts: Sequence[Position] | None = None,
        rescan: bool = False,
    ) -> list[Claim]:
        """Claim, by default from the very start of every lane."""
        rows = await self.claim_rows(
            worker, limit, queues=queues, known=known, lease=lease, starts=starts, rescan=rescan
        )
        return free.claims_of(worker, rows[:-1])

    async def claim_rows(
        self,
        worker: str,
        limit: int,
        *,
        queues: Sequence[str] = ("default",),
        known: Mapping[str, tuple[int, int]] = JOB,
        lease: float = LEASE,
        starts: Sequence[Position] | None = None,
        rescan: bool = False,
    ) -> list[asyncpg.Record]:
        lanes = claim_lanes(queues, starts)
        knows = Known(dict(known))
        return await self.inbox("claim", *lanes, limit, knows.kinds, knows.spread, worker, lease, rescan, rescan)

    async def guarded_rows(self, worker: str = "w1", take: int = 25, **options: Any) -> list[asyncpg.Record]:
        """The guarded claim; see `guarded_arguments`."""
        return await self.inbox("claim_guarded", *guarded_arguments(worker, take, **options))

    async def claim_guarded(self, worker: str = "w1", take: int = 25, **options: Any) -> list[Claim]:
        rows = await self.guarded_rows(worker, take, **options)
        return guarded.claims_of(worker, rows[1:])

    async def claim_suspect(self, worker: str = "w1") -> Claim | None:
        claims = await self.claim_guarded(worker, 1, suspects=True)
        return claims[0] if claims else None

    async def row(self, id: UUID) -> asyncpg.Record:
        found = await self.connection.fetchrow("select * from holdfast.inbox where id = $1", id)
        assert found is not None
        return found

    async def archived(self, id: UUID) -> asyncpg.Record | None:
        return await self.connection.fetchrow("select * from holdfast.archive where id = $1", id)

    async def add(
        self,
        count: int = 1,
        *,
        kind: str | None = "job",
        queue: str = "default",
        priority: int = 1,
        due: float = -1.0,
        max_attempts: int = 5,
        attempts: int = 0,
        version: int = 1,
        crashes: int = 0,
        key: str | None = None,
        idempotency_key: str | None = None,
        ordered: bool = False,
        skips: bool = False,
        owned: bool = False,
    ) -> list[UUID]:
        """Insert pending rows, due in so many seconds, in order; returns their ids."""
        payload = json.dumps({"n": 0} if kind is None else {"type": kind, "n": 0})
        rows = await self.connection.fetch(
            """
            insert into holdfast.inbox (
                partition_key, partition_bucket, payload, queue, priority, available_at, max_attempts, attempts,
                payload_version, crashes, idempotency_key, ordered, skips, owned)
            select $1, $2, jsonb_set($3::jsonb, '{n}', to_jsonb(n)), $4, $5,
                   holdfast.clock() + make_interval(secs => $6), $7, $8, $9, $10, $11, $13, $14, $15
            from generate_series(1, $12) n
            returning id, seq
            """,
            key or "key", bucket(key or "key"), payload, queue, priority, due, max_attempts, attempts, version,
            crashes, idempotency_key, count, ordered, skips, owned,
        )  # fmt: skip
        return [row["id"] for row in sorted(rows, key=lambda row: int(row["seq"]))]

    async def snapshot(self) -> list[tuple[Any, ...]]:
        """Everything the inbox, the archive and the markers hold, to be compared."""
        found = []
        for table in ("inbox", "archive", "once", "dedupe"):
            rows = await self.connection.fetch(f"select t.*, t.ctid::text from holdfast.{table} t order by t.ctid")
            found += [(table, *row.values()) for row in rows]
        return found


def claim_lanes(queues: Sequence[str], starts: Sequence[Position] | None = None) -> tuple[list[Any], ...]:
    """The first four parameters of the claim: every priority of every queue, as a worker has them."""
    lanes = [(queue, priority) for priority in range(4) for queue in queues]
    begin = list(starts) if starts is not None else [START] * len(lanes)
    return [q for q, _ in lanes], [p for _, p in lanes], [at for at, _ in begin], [seq for _, seq in begin]


def guarded_arguments(
    worker: str = "w1",
    take: int = 25,
    *,
    look: int = 50,
    keys: int = 50,
    block: bool = True,
    start: Position = START,
    hint: Position = (datetime(9999, 1, 1, tzinfo=UTC), 0),
    queues: Sequence[str] = ("default",),
    vacated: Sequence[tuple[str, str]] = (),
    buckets: Sequence[int] = (),
    suspects: bool = False,
    known: Mapping[str, tuple[int, int]] = JOB,
    lease: float = LEASE,
    rescan: bool = False,
) -> tuple[Any, ...]:
    """Of the guarded claim, from the start, as if all had been passed before; `buckets` of the first are owned."""
    lanes = [(queue, priority, owned) for owned in (False, True) for priority in range(4) for queue in queues]
    knows = Known(dict(known))
    return (
        [queue for queue, _, _ in lanes], [priority for _, priority, _ in lanes], [owned for _, _, owned in lanes],
        [start[0]] * len(lanes), [start[1]] * len(lanes), [hint[0]] * len(lanes), [hint[1]] * len(lanes),
        [queues[0]] * len(buckets), list(buckets), [queue for queue, _ in vacated], [key for _, key in vacated],
        [True] * len(vacated), look, keys, take, suspects, block, knows.kinds, knows.spread, worker, lease, rescan,
    )  # fmt: skip


@asynccontextmanager
async def session(url: str, name: str = "test") -> AsyncIterator[Session]:
    database = database_at(url)
    connection = await database.connect(name, planner=True)
    try:
        yield Session(database, connection)
    finally:
        await connection.close(timeout=10)


async def move_clock(connection: Connection, seconds: float) -> None:
    """Let the schema's only clock differ from the server's by so much."""
    await connection.execute(
        "create or replace function holdfast.clock() returns timestamptz language sql stable parallel safe "
        f"as $$ select statement_timestamp() + make_interval(secs => {float(seconds)}) $$"
    )


async def until_waiting(connection: Connection, pid: int) -> None:
    """Return when the session `pid` waits for a lock; 0: when any of this database does."""
    await until(
        connection,
        "select exists (select from pg_stat_activity where (pid = $1 or $1 = 0 and datname = current_database())"
        " and wait_event_type = 'Lock') from (select pg_stat_clear_snapshot() offset 0) as afresh",
        pid,
    )


async def until(connection: Connection, question: str, *arguments: Any, seconds: float = PATIENCE) -> None:
    """Return as soon as the database answers the question with true."""
    deadline = time.monotonic() + seconds
    while not await connection.fetchval(question, *arguments):
        assert time.monotonic() < deadline, f"not so within {seconds} s: {question}"
        await asyncio.sleep(0.005)
