-- Which rows are still under this hold, and which of them were cancelled.
-- Takes    $1 ids, $2 generations, $3 worker.
-- Returns  id, cancelled. A row that does not come back is lost.
-- Locks    nothing.
-- Index    the primary key alone (see complete.sql).
select i.id, i.cancel_requested_at is not null as cancelled
from unnest($1::uuid[], $2::bigint[]) as h (id, generation)
join holdfast.inbox i on i.id = any (array[h.id])
where i.claimed_by = $3
  and i.lease_generation = h.generation
  and i.status::text = 'processing'
