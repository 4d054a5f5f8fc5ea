-- Renew leases, under their holds.
-- Takes    $1 ids, $2 generations, $3 worker, $4 lease in seconds.
-- Returns  the ids renewed. A row that is locked right now is left out: unknown, not lost; held.sql tells them apart.
-- Locks    the rows, in order of id, skipping locked ones; never waits.
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
set lease_expires_at = holdfast.clock() + make_interval(secs => $4)
from held
where i.id = any (array[held.id])
returning i.id
