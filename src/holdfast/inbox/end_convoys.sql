-- Complete convoys: rows of ordered keys that this worker holds (heads), and rows that were read behind them (followers.sql)
-- and have completed under the same hold. Each moves to the archive as if it had been claimed.
--
-- The hold on the head covers its key: nobody else can claim a row of the key while it lasts. So if it is lost, nothing of the
-- convoy is written.
-- Takes    per row: $1 ids in ascending order, $2 generations (of a row that was not claimed: the one that a claim would give),
--          $3 heads of their convoys, $4 fences, $5 results (JSON text or null), $6 seconds that it took; $7 worker.
-- Returns  how many were completed, how many of them after their lease had expired, and if not all were: which. A row that was
--          ended by others while it was under way, as by a cancellation, does not come back.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
with locked as materialized (
    select r.id, r.generation, r.head, r.fence, r.result, r.took
    from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::float8[])
         as r (id, generation, head, fence, result, took)
    join holdfast.inbox i on i.id = any (array[r.id])
    where case when r.id = r.head
               then i.claimed_by = $7 and i.lease_generation = r.generation and i.status::text = 'processing'
               else i.lease_generation = r.generation - 1 and i.status::text in ('pending', 'blocked') end
    order by r.id
    for update of i
),
ended as (
    delete from holdfast.inbox i
    using locked l
    where i.id = any (array[l.id])
      -- Inside a "case", so that it is looked up in a hash table: as a join, it would compare each row with each head.
      and case when l.head in (select h.id from locked h where h.id = h.head) then true end
    returning i.*, l.generation, l.head, l.fence as drawn, l.result, l.took
),
archived as (
    insert into holdfast.archive ({{archived_columns}}, status, cancel_requested_at, last_error, result, finished_at)
    select id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, headers,
           case when id = head then attempts else attempts + 1 end, max_attempts, $7,
           coalesce(claimed_at, holdfast.clock() - make_interval(secs => took)), generation, drawn, available_at, errors,
           idempotency_key, created_at, 'completed'::holdfast.inbox_status, cancel_requested_at, last_error, result::jsonb,
           holdfast.clock()
    from ended
)
select count(*) as completed, count(*) filter (where lease_expires_at < holdfast.clock()) as late,
       case when count(*) < pg_catalog.cardinality($1::uuid[]) then array(select id from ended) end as ids
from ended
