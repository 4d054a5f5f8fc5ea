-- Make pending rows without an attempt left dead letters; only hand-written SQL makes such rows.
-- Takes    $1 batch.
-- Returns  the ids.
-- Index    idx_inbox_exhausted.
with spent as materialized (
    select i.id
    from holdfast.inbox i
    where i.status = 'pending' and i.attempts >= i.max_attempts
    order by i.id
    limit $1
    for update skip locked
)
update holdfast.inbox i
set status = 'dead_letter',
    dead_at = holdfast.clock(),
    last_error = coalesce(i.last_error, pg_catalog.format('Exhausted: %s of %s attempts were used', i.attempts, i.max_attempts))
from spent
where i.id = any (array[spent.id])
returning i.id
