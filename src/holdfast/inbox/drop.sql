-- Complete rows that leave nothing: their tasks have keep=None, and they have no idempotency key.
-- Takes    $1 ids in ascending order, $2 generations, $3 worker.
-- Returns  as complete.sql.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
with ended as (
    delete from holdfast.inbox i
    using unnest($1::uuid[], $2::bigint[]) as c (id, generation)
    where i.id = any (array[c.id])
      and i.claimed_by = $3
      and i.lease_generation = c.generation
      and i.status::text = 'processing'
    returning i.id, i.lease_expires_at
)
select count(*) as completed, count(*) filter (where lease_expires_at < holdfast.clock()) as late,
       case when count(*) < pg_catalog.cardinality($1::uuid[]) then array(select id from ended) end as ids
from ended
