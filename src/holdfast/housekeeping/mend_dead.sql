-- Complete dead letters that hand-written SQL left with a worker and a lease.
-- Takes    $1 batch.
-- Returns  the ids.
-- Index    idx_inbox_dead, its null end. "order by dead_at" sorts nothing, all are null: without it the planner does not
--          see that the index gives the order of id, and walks the whole primary key.
with rough as materialized (
    select i.id
    from holdfast.inbox i
    where i.status = 'dead_letter' and i.dead_at is null
    order by i.dead_at, i.id
    limit $1
    for update skip locked
)
update holdfast.inbox i
set dead_at = holdfast.clock(),
    last_error = coalesce(i.last_error, pg_catalog.format('Exhausted: worker %s held attempt %s of %s (generation %s)',
                                               i.claimed_by, i.attempts, i.max_attempts, i.lease_generation)),
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from rough
where i.id = any (array[rough.id])
returning i.id
