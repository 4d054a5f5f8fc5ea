-- Make dead letters pending again with a full set of attempts; the next claim raises the generation.
-- Takes    $1 ids.
-- Returns  the ids revived.
-- Locks    the rows, in order of id, skipping locked ones (another operator is reviving them); never waits.
-- Index    the primary key alone (see complete.sql).
with dead as materialized (
    select i.id
    from pg_catalog.unnest($1::uuid[]) as d (id)
    join holdfast.inbox i on i.id = any (array[d.id])
    where i.status::text = 'dead_letter'
    order by d.id
    for update of i skip locked
)
update holdfast.inbox i
set status = 'pending',
    available_at = clock_timestamp(),
    attempts = 0,
    crashes = 0,
    snoozes = null,
    dead_at = null,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null,
    cancel_requested_at = null
from dead
where i.id = any (array[dead.id])
returning i.id, holdfast.wake(i.queue)
