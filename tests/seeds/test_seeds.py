"""Every statement of the series' parts 1, 2 and 8 that reads or changes rows, copied as it stands, on our schema."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio
from tests.support.pooler import direct

from holdfast.db.database import Connection

HERE = Path(__file__).parent
STATEMENTS = sorted(path.stem for path in HERE.glob("*.sql"))


def seed(name: str) -> str:
    return (HERE / f"{name}.sql").read_text(encoding="utf-8")


@pytest_asyncio.fixture
async def db(migrated_url: str) -> AsyncIterator[Connection]:
    """As somebody at a psql prompt, with the schema on the search path and nothing else set."""
    connection = await asyncpg.connect(direct(migrated_url), server_settings={"search_path": "holdfast"})
    yield connection
    await connection.close()


async def enqueue(db: Connection, count: int = 1, **columns: Any) -> list[UUID]:
    """Rows like the seed's, without its idempotency key."""
    rows = await db.fetch(
        """
        insert into inbox (partition_key, partition_bucket, payload, attempts, max_attempts, available_at, created_at)
        select 'order:' || n, coalesce($2, 417), '{"type":"send_receipt"}', $3, $4, now() + $5,
               now() - make_interval(secs => $1 - n)
        from generate_series(1, $1) n
        returning id, created_at
        """,
        count, columns.get("bucket"), columns.get("attempts", 0), columns.get("max_attempts", 5),
        columns.get("delay", timedelta(0)),
    )  # fmt: skip
    return [row["id"] for row in sorted(rows, key=lambda row: row["created_at"])]


async def in_flight(db: Connection, lease: timedelta, attempts: int = 1, max_attempts: int = 5) -> UUID:
    """A row claimed by hand whose lease ends in `lease` from now."""
    (id,) = await enqueue(db, max_attempts=max_attempts)
    await db.execute(
        """
        update inbox set status = 'processing', claimed_by = 'w1', claimed_at = now(), lease_expires_at = now() + $2,
                         lease_generation = 1, attempts = $3
        where id = $1
        """,
        id, lease, attempts,
    )  # fmt: skip
    return id


async def row(db: Connection, id: UUID) -> asyncpg.Record:
    found = await db.fetchrow("select * from inbox where id = $1", id)
    assert found is not None
    return found


LATE, VALID = timedelta(seconds=-1), timedelta(seconds=60)


def test_every_kept_statement_is_named() -> None:
    assert STATEMENTS == [
        "part1_claim", "part1_complete", "part1_enqueue", "part1_retry",
        "part2_bury", "part2_claim", "part2_sweep",
        "part8_bury", "part8_claim", "part8_dead_letters", "part8_heartbeat", "part8_live_workers",
        "part8_oldest_pending", "part8_stuck", "part8_sweep",
    ]  # fmt: skip


async def test_enqueue(db: Connection) -> None:
    assert await db.execute(seed("part1_enqueue")) == "INSERT 0 1"
    made = await db.fetchrow("select * from inbox")
    assert made is not None
    assert (made["partition_key"], made["partition_bucket"]) == ("order:9182", 417)
    assert (made["kind"], made["status"], made["idempotency_key"]) == ("send_receipt", "pending", "receipt-9182-v1")
    assert (made["attempts"], made["max_attempts"], made["lease_generation"]) == (0, 5, 0)
    assert made["available_at"] == made["created_at"]
    assert made["id"].version == 7
    with pytest.raises(asyncpg.UniqueViolationError):
        await db.execute(seed("part1_enqueue"))


@pytest.mark.parametrize("part", ["part1_claim", "part2_claim", "part8_claim"])
async def test_claim(db: Connection, part: str) -> None:
    ids = await enqueue(db, 30)
    (future,) = await enqueue(db, delay=timedelta(hours=1))
    (elsewhere,) = await enqueue(db, bucket=7)
    arguments = ("w1",) if part != "part8_claim" else ([417, 5], "w1")

    claimed = await db.fetch(seed(part), *arguments)
    assert {made["id"] for made in claimed} == set(ids[:25])
    for made in claimed:
        assert (made["status"], made["claimed_by"]) == ("processing", "w1")
        assert (made["lease_generation"], made["attempts"]) == (1, 1)
        left = made["lease_expires_at"] - await db.fetchval("select now()")
        assert timedelta(seconds=60) < left <= timedelta(seconds=90)
        assert (made["claimed_at"] is not None) == (part == "part8_claim")

    rest = {made["id"] for made in await db.fetch(seed(part), *arguments)}
    assert rest == set(ids[25:]) | (set() if part == "part8_claim" else {elsewhere})
    assert await db.fetch(seed(part), *arguments) == []
    assert (await row(db, future))["status"] == "pending"


@pytest.mark.parametrize("part", ["part1_claim", "part2_claim", "part8_claim"])
async def test_two_claims_at_once_share_nothing(db: Connection, migrated_url: str, part: str) -> None:
    ids = await enqueue(db, 40)
    other = await asyncpg.connect(direct(migrated_url), server_settings={"search_path": "holdfast"})
    arguments = ("w1",) if part != "part8_claim" else ([417], "w1")
    try:
        async with other.transaction():
            first = {made["id"] for made in await other.fetch(seed(part), *arguments)}
            second = {made["id"] for made in await db.fetch(seed(part), *arguments)}
    finally:
        await other.close()
    assert first.isdisjoint(second)
    assert first | second == set(ids)


async def test_complete(db: Connection) -> None:
    id = await in_flight(db, VALID)
    for stale in [(id, "w1", 2), (id, "w2", 1)]:
        assert await db.execute(seed("part1_complete"), *stale) == "UPDATE 0"
    assert await db.execute(seed("part1_complete"), id, "w1", 1) == "UPDATE 1"
    assert (await row(db, id))["status"] == "completed"
    assert await db.execute(seed("part1_complete"), id, "w1", 1) == "UPDATE 0"
    late = await in_flight(db, LATE)
    assert await db.execute(seed("part1_complete"), late, "w1", 1) == "UPDATE 0"


@pytest.mark.parametrize(("attempts", "delay"), [(1, 2), (3, 8), (20, 3600)])
async def test_retry(db: Connection, attempts: int, delay: int) -> None:
    id = await in_flight(db, VALID, attempts=attempts, max_attempts=30)
    for stale in [(id, "w1", 2), (id, "w2", 1)]:
        assert await db.execute(seed("part1_retry"), *stale) == "UPDATE 0"
    async with db.transaction():
        assert await db.execute(seed("part1_retry"), id, "w1", 1) == "UPDATE 1"
        after = await row(db, id)
        assert after["available_at"] == await db.fetchval("select now()") + timedelta(seconds=delay)
    assert (after["status"], after["claimed_by"], after["lease_expires_at"]) == ("pending", None, None)
    assert after["attempts"] == attempts


@pytest.mark.parametrize(("part", "delay"), [("part2_sweep", 0), ("part8_sweep", 4)])
async def test_sweep(db: Connection, part: str, delay: int) -> None:
    expired = await in_flight(db, LATE, attempts=2)
    valid = await in_flight(db, VALID, attempts=2)
    exhausted = await in_flight(db, LATE, attempts=5)
    async with db.transaction():
        assert await db.execute(seed(part)) == "UPDATE 1"
        after = await row(db, expired)
        assert after["available_at"] == await db.fetchval("select now()") + timedelta(seconds=delay)
    assert (after["status"], after["claimed_by"], after["lease_expires_at"]) == ("pending", None, None)
    assert (after["attempts"], after["lease_generation"]) == (2, 1)
    assert (after["claimed_at"] is None) == (part == "part8_sweep")
    for untouched in (valid, exhausted):
        assert (await row(db, untouched))["status"] == "processing"


@pytest.mark.parametrize("part", ["part2_bury", "part8_bury"])
async def test_bury(db: Connection, part: str) -> None:
    exhausted = await in_flight(db, LATE, attempts=5)
    others = [await in_flight(db, LATE, attempts=4), await in_flight(db, VALID, attempts=5)]
    assert await db.execute(seed(part)) == "UPDATE 1"
    assert (await row(db, exhausted))["status"] == "dead_letter"
    for untouched in others:
        assert (await row(db, untouched))["status"] == "processing"


async def test_heartbeat_and_live_workers(db: Connection) -> None:
    await db.execute(seed("part8_heartbeat"))
    first = await db.fetchrow("select * from workers")
    assert first is not None
    assert (first["id"], first["status"]) == ("worker-host1-4821", "alive")
    await db.execute("update workers set last_seen_at = now() - interval '40 seconds', status = 'dead'")
    await db.execute("insert into workers (id, status) values ('a', 'alive'), ('b', 'draining'), ('c', 'dead')")
    assert [made["id"] for made in await db.fetch(seed("part8_live_workers"))] == ["a"]
    await db.execute(seed("part8_heartbeat"))
    assert [made["id"] for made in await db.fetch(seed("part8_live_workers"))] == ["a", "worker-host1-4821"]
    with pytest.raises(asyncpg.CheckViolationError):
        await db.execute("update workers set status = 'resting'")


async def test_support_queries(db: Connection) -> None:
    assert await db.fetchval(seed("part8_oldest_pending")) is None
    assert await db.fetch(seed("part8_stuck")) == []
    assert await db.fetch(seed("part8_dead_letters")) == []

    await enqueue(db, 60)
    assert await db.fetchval(seed("part8_oldest_pending")) >= timedelta(seconds=59)

    stuck = await in_flight(db, LATE, attempts=3)
    await in_flight(db, VALID)
    (found,) = await db.fetch(seed("part8_stuck"))
    assert tuple(found.keys()) == (
        "id", "partition_key", "claimed_by", "lease_expires_at", "attempts", "last_error",
    )  # fmt: skip
    assert (found["id"], found["claimed_by"], found["attempts"]) == (stuck, "w1", 3)

    await db.execute(
        "update inbox set status = 'dead_letter', last_error = 'SMTP down', "
        "partition_key = case when partition_key in ('order:1', 'order:2') then 'order:9182' else partition_key end "
        "where partition_key in ('order:1', 'order:2', 'order:3') and status = 'pending'"
    )
    dead = await db.fetch(seed("part8_dead_letters"))
    assert [tuple(made.values()) for made in dead] == [("order:9182", 2, "SMTP down"), ("order:3", 1, "SMTP down")]
