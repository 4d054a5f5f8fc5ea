-- Hand back everything that a dead worker holds. None of these rows is known to have started, so the attempt is not counted.
-- Takes    $1 worker.
-- Returns  id, handed_back. A row that is locked right now is not: the caller retries.
-- Locks    the rows, in the order of the index, skipping locked ones; never waits.
-- Index    idx_inbox_stale_processing: it walks all rows in processing, once per dead worker. Then the primary
--          key.
with held as materialized (
    select i.id
    from holdfast.inbox i
    where i.status = 'processing'
      and i.claimed_by = $1
    order by i.lease_expires_at, i.id
),
locked as materialized (
    select i.id
    from held h
    join holdfast.inbox i on i.id = any (array[h.id])
    where i.claimed_by = $1
      and i.status::text = 'processing'
    for update of i skip locked
),
handed_back as (
    update holdfast.inbox i
    set status = 'pending',
        available_at = clock_timestamp(),
        attempts = greatest(i.attempts - 1, 0),
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null
    from locked
    where i.id = any (array[locked.id])
    returning i.id
)
select h.id, h.id in (select b.id from handed_back b) as handed_back
from held h
