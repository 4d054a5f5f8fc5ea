"""A drain: a worker that is up and has warmed itself, a queue that is filled while it is paused, and resumed.

The time is from the first claim to the last completion, by the server's clock; each job must have run once.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from holdfast import Holdfast

from ..app import NOTE
from ..processes import check_workers, worker
from .measured import Measured
from .place import Place

WARM = 200
REST = 0.3
"""Seconds for what the filling began to come to rest."""
PATIENCE = 120.0
LOOK_EVERY = 0.05

_FILL = """
    insert into holdfast.inbox (partition_key, partition_bucket, {kind} payload, ordered)
    select key, holdfast.bucket(key), {value} jsonb_build_object('type', $1::text, 'number', n, 'note', $2::text),
           $3::text is not null
    from generate_series(1, $5::int) as n
    cross join lateral (
        select 'key ' || case $3::text when 'interleaved' then n % $4::int when 'neighbours' then n / $4::int else n end
    ) as keyed (key)
    order by n
"""
"""Ordered by $3: null for no order, else one of $4 keys in turn, or $4 neighbours of one key."""
_GENERATED = """
    select attgenerated <> '' from pg_attribute where attrelid = 'holdfast.inbox'::regclass and attname = 'kind'
"""
"""Up to version 16, the server computed the kind; from then on, a row that comes without it is written twice."""
_ENDED = "select count(*) from holdfast.archive"
_COUNTS = """
    select count(*)::int, count(distinct id)::int, count(*) filter (where status = 'completed' and attempts = 1)::int,
           extract(epoch from max(finished_at) - min(claimed_at))::float8
    from holdfast.archive where claimed_at >= $1
"""


class NotExactlyOnce(Exception):
    """The count after a drain is not what was enqueued."""


async def drained(
    place: Place, axis: str, case: str, words: str, jobs: int, *, kind: str = "noop", app: str = "hf",
    keys: str | None = None, of: int = 1,
) -> list[Measured]:  # fmt: skip
    control = Holdfast(place.url)
    async with place.connected() as watch:
        await _fill(watch, kind, keys, of, WARM)
        with worker(place.url, "-c", "20", app=app) as supervisor:
            await _until_ended(watch, WARM)
            await control.pause("default")
            await _fill(watch, kind, keys, of, jobs)
            await asyncio.sleep(REST)
            began = await watch.fetchval("select clock_timestamp()")
            before = place.used(supervisor)
            await control.resume("default")
            await _until_ended(watch, WARM + jobs)
            cpu = place.per_job(before, supervisor, jobs)
        await control.close()
        rows, ids, clean, seconds = (await watch.fetch(_COUNTS, began))[0]
    if (rows, ids, clean) != (jobs, jobs, jobs):
        raise NotExactlyOnce(
            f"{jobs} jobs were enqueued; the archive has {rows} rows of {ids} jobs, {clean} completed at the first "
            "attempt"
        )
    return [Measured(axis, case, f"{jobs:,} {words}", "jobs/s", [jobs / seconds], True, cpu)]


async def _fill(watch: asyncpg.Connection, kind: str, keys: str | None, of: int, jobs: int) -> None:
    generated = await watch.fetchval(_GENERATED)
    fill = _FILL.format(kind="", value="") if generated else _FILL.format(kind="kind,", value="$1::text,")
    await watch.execute(fill, kind, NOTE, keys, of, jobs, timeout=PATIENCE)


async def _until_ended(watch: asyncpg.Connection, jobs: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (ended := await watch.fetchval(_ENDED)) < jobs:
        check_workers()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{ended} of {jobs} jobs have ended after {PATIENCE:.0f} s")
        await asyncio.sleep(LOOK_EVERY)
