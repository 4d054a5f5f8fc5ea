-- Hand back rows that have not started; the attempt is not counted.
-- Takes    $1 ids, $2 generations, $3 worker.
-- Returns  the ids handed back.
-- Locks    the rows, in order of id, skipping locked ones; never waits. The caller retries those that it still holds.
-- Index    the primary key alone (see complete.sql).
with held as materialized (
    select i.id
    from unnest($1::uuid[], $2::bigint[]) as h (id, generation)
    join holdfast.inbox i on i.id = any (array[h.id])
    where i.claimed_by = $3
      and i.lease_generation = h.generation
      and i.status::text = 'processing'
    order by h.id
    for update of i skip locked
)
update holdfast.inbox i
set status = 'pending',
    available_at = clock_timestamp(),
    attempts = greatest(i.attempts - 1, 0),
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from held
where i.id = any (array[held.id])
returning i.id
