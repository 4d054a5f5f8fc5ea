-- All rows that a worker has claimed.
-- Takes    $1 worker.
-- Returns  id, lease_generation.
-- Locks    nothing.
-- Index    idx_inbox_stale_processing: it walks all rows in processing, once per claim whose answer was lost and once
--          per recall.
select i.id, i.lease_generation
from holdfast.inbox i
where i.status = 'processing'
  and i.claimed_by = $1
