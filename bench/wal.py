"""WAL of claim and completion: all that a drain writes, less what its archive rows take by themselves.

The archive's part is measured: the same rows, in the same batches, are written once more to a table like a partition of
it. Where the server has pg_walinspect, a last figure says which relation took how much.
"""

from __future__ import annotations

import asyncpg

from holdfast.worker.settings import WorkerSettings

from .draining import drain
from .figures import Results, at_most
from .ground import Ground, connected, fill, settle
from .turns import turns

BATCH = WorkerSettings().batch

_AGAIN = """
    insert into archive_again
    select a.*
    from holdfast.archive a join numbered using (id)
    where n >= $1::int and n < $1::int + $2::int
    order by n
"""
_RELATIONS = r"""
    select coalesce(regexp_replace(c.relname, '_\d{8}', ''), 'other') as relation, sum(part)::bigint as bytes
    from (
        -- A record of several blocks is divided among them.
        select relfilenode, record_length::float8 / count(*) over (partition by start_lsn) + block_fpi_length as part
        from pg_get_wal_block_info($1::text::pg_lsn, $2::text::pg_lsn)
        where reldatabase = (select oid from pg_database where datname = current_database())
    ) as blocks
    left join pg_class c on pg_relation_filenode(c.oid) = blocks.relfilenode
    group by 1
    order by 2 desc
"""


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 50_000
    totals, rows = [], []
    relations: dict[str, list[float]] = {}
    for _ in turns(5 if full else 3, ["wal"]):
        async with ground.database() as url, connected(url) as watch:
            await fill(watch, jobs)
            await settle(watch)
            before = await watch.fetchval("select pg_current_wal_insert_lsn()::text")
            totals.append((await drain(ground, url, watch, jobs, "-c", "20")).wal / jobs)
            for name, written in (await _by_relation(watch, before)).items():
                relations.setdefault(name, []).append(written / jobs)
            rows.append(await _archive_again(watch, jobs) / jobs)
    aside = [total - row for total, row in zip(totals, rows, strict=True)]
    results.add("wal", "claim + complete, archive row aside", "bytes/job", aside, at_most(600), case="aside")
    results.add("wal", "archive row and its index entry", "bytes/job", rows, case="archive")
    results.add("wal", "all of it", "bytes/job", totals, case="total")
    for name, values in relations.items():
        if max(values) >= 1:
            results.add("wal", f"of {name}", "bytes/job", values, case=f"relation.{name}")


async def _archive_again(watch: asyncpg.Connection, jobs: int) -> int:
    """Bytes of WAL that the rows of the archive take, in batches and in the order in which they came."""
    await watch.execute("create table archive_again (like holdfast.archive including defaults)")
    await watch.execute("create index on archive_again (id)")
    await watch.execute(
        "create temp table numbered as "
        "select id, (row_number() over (order by finished_at, id) - 1)::int as n from holdfast.archive"
    )
    await watch.execute("create index on numbered (n); analyze numbered")
    before = await watch.fetchval("select pg_current_wal_insert_lsn()::text")
    for first in range(0, jobs, BATCH):
        await watch.execute(_AGAIN, first, BATCH)
    return int(await watch.fetchval("select pg_current_wal_insert_lsn() - $1::text::pg_lsn", before))


async def _by_relation(watch: asyncpg.Connection, before: str) -> dict[str, int]:
    try:
        await watch.execute("create extension if not exists pg_walinspect")
        after = await watch.fetchval("select pg_current_wal_flush_lsn()::text")
        rows = await watch.fetch(_RELATIONS, before, after)
    except (asyncpg.PostgresError, asyncpg.InterfaceError):
        return {}
    return {row["relation"]: int(row["bytes"]) for row in rows}
