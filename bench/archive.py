"""Archive: the drain of 10,000 jobs beside an empty archive and beside a full one.

The rows are in the partition of today, into which the completions write, too. The two databases take turns, and the
empty archive is emptied again each time.
"""

from __future__ import annotations

import asyncpg

from .app import NOTE
from .draining import until
from .figures import Results, at_least, ratios
from .ground import Ground, connected, fill, settle
from .processes import worker
from .turns import say, turns

JOBS = 10_000
CHUNK = 250_000

_FILL = """
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
        max_attempts, claimed_by, claimed_at, lease_generation, fence, available_at, created_at, finished_at)
    select holdfast.uuidv7(), n, n::text, n % 1024, 'default', 1, 'noop',
           jsonb_build_object('type', 'noop', 'number', n, 'note', $3::text), 1, 'completed', 1,
           5, 'an earlier worker', now(), 1, n, now(), now(), now()
    from generate_series($1::bigint, $2::bigint) as n
"""
_SECONDS = """
    select extract(epoch from max(finished_at) - min(claimed_at))::float8, count(*)::int
    from holdfast.archive
    where id > $1
"""


async def run(ground: Ground, results: Results, full: bool) -> None:
    rows = 5_000_000 if full else 100_000
    rates: dict[str, list[float]] = {"empty": [], "full": []}
    async with ground.database() as empty, ground.database() as filled:
        async with connected(filled) as connection:
            await _fill(connection, rows)
        for name in turns(9 if full else 5, rates):
            async with connected(filled if name == "full" else empty) as watch:
                rates[name].append(await _once(filled if name == "full" else empty, watch))
                if name == "empty":
                    await watch.execute("truncate holdfast.archive")
    results.add("archive", f"{JOBS:,} jobs, archive empty", "jobs/s", rates["empty"], case="rate.0")
    results.add("archive", f"{JOBS:,} jobs, {rows:,} archived", "jobs/s", rates["full"], case=f"rate.{rows}")
    kept = ratios(rates["full"], rates["empty"])
    results.add("archive", f"{rows:,} archived ÷ none", "", kept, at_least(0.9), case="kept")


async def _fill(connection: asyncpg.Connection, rows: int) -> None:
    for start in range(0, rows, CHUNK):
        if rows > CHUNK:
            say(f"{start:,} of {rows:,} archived")
        await connection.execute(_FILL, start, min(start + CHUNK, rows) - 1, NOTE, timeout=300)
    await connection.execute("vacuum analyze holdfast.archive", timeout=600)


async def _once(url: str, watch: asyncpg.Connection) -> float:
    mark = await watch.fetchval("select holdfast.uuidv7()")
    await fill(watch, JOBS)
    await settle(watch)
    with worker(url, "-c", "20"):
        # Not a count of the archive, which is what must not be touched.
        await until(watch, f"select {JOBS} - count(*) from holdfast.inbox", JOBS)
    seconds, done = (await watch.fetch(_SECONDS, mark))[0]
    if done != JOBS:
        raise AssertionError(f"expected {JOBS} jobs in the archive, got {done}")
    return JOBS / float(seconds)
