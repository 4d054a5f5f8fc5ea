-- Make dead letters pending again with a full set of attempts; the next claim raises the generation. One that was unique
-- until it is done is so again, unless another job has its key by now: it is wanted by name, and runs beside that one.
-- Takes    $1 ids, $2 who does it.
-- Returns  the ids revived.
-- Locks    the rows, in order of id, skipping locked ones (another operator is reviving them). Waits only for a producer
--          that is adding a job of the same unique key; if that commits, the unique index refuses this: run it again.
-- Index    the primary key alone (see complete.sql); idx_inbox_unique.
with dead as materialized (
    select i.id, i.kind, case when i.unique_done then i.unique_key end as unique_key
    from pg_catalog.unnest($1::uuid[]) as d (id)
    join holdfast.inbox i on i.id = any (array[d.id])
    where i.status::text = 'dead_letter'
    order by d.id
    for update of i skip locked
),
unique_again as (
    select distinct on (d.kind, d.unique_key) d.id
    from dead d
    where d.unique_key is not null
      and not exists (
          select from holdfast.inbox o
          where o.kind = d.kind and o.unique_key = d.unique_key and (o.lease_generation = 0 or o.unique_done)
            and o.status <> 'dead_letter'
      )
    order by d.kind, d.unique_key, d.id
),
revived as (
    update holdfast.inbox i
    set status = 'pending',
        available_at = clock_timestamp(),
        attempts = 0,
        crashes = 0,
        snoozes = null,
        unique_key = case when exists (select from unique_again u where u.id = i.id) then i.unique_key end,
        expires_at = null,        -- it may have passed, and this job is to run
        dead_at = null,
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null,
        cancel_requested_at = null
    from dead
    where i.id = any (array[dead.id])
    returning i.id, i.queue, i.kind
),
noted as materialized (
    select holdfast.note_jobs(
        'jobs.revived', pg_catalog.array_agg(r.id), pg_catalog.array_agg(r.queue), pg_catalog.array_agg(r.kind), $2::text) as id
    from revived r
)
select r.id, holdfast.wake(r.queue), n.id as noted
from revived r
cross join noted n
