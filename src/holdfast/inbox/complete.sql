-- Complete rows: each moves to the archive, completed with its result, or as failed, cancelled or expired with the reason.
-- Takes    $1 ids in ascending order, $2 generations, $3 results (JSON text or null), $4 statuses (null: completed),
--          $5 reasons, $6 worker, $7 keep (days; 0 or less: it leaves no row; null: archive_days).
-- Returns  how many were completed, how many of them after their lease had expired, and if not all were: which. An id
--          that does not come back was lost. The other arrays may be shorter than the first: the rest is null.
-- Locks    the rows, in order of id: the nested loop follows the order of $1.
-- Index    the primary key alone. "status::text" is deliberate: it cannot match the partial index on processing rows,
--          which would walk every row in processing. "= any (array[…])", here and in the other statements, keeps the
--          planner from a merge join that walks the whole primary key: it chooses that plan while the table is empty,
--          and a session keeps it when the table is full.
with ended as (
    delete from holdfast.inbox i
    using unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $7::int[])
          as c (id, generation, result, ended_as, reason, keep)
    where i.id = any (array[c.id])
      and i.claimed_by = $6
      and i.lease_generation = c.generation
      and i.status::text = 'processing'
    returning i.*, c.result, c.ended_as, c.reason, c.keep
),
archived as (
    insert into holdfast.archive ({{archived_columns}}, status, cancel_requested_at, last_error, result, finished_at,
                                  keep_days)
    select {{archived_columns}}, coalesce(ended_as, 'completed')::holdfast.inbox_status, cancel_requested_at,
           coalesce(reason, last_error), result::jsonb, holdfast.clock(), keep
    from ended
    where coalesce(keep, 1) > 0
),
remembered as (
    update holdfast.dedupe d
    set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
    from ended
    where ended.idempotency_key is not null and d.key = any (array[ended.idempotency_key])
)
select count(*) as completed, count(*) filter (where lease_expires_at < holdfast.clock()) as late,
       case when count(*) < pg_catalog.cardinality($1::uuid[]) then array(select id from ended) end as ids
from ended
