-- Rows that these workers hold, and whose job was cancelled.
-- Takes    $1 workers.
-- Returns  id, generation, worker.
-- Index    idx_inbox_cancel; "order by" its order, so that the planner uses no other index.
select i.id, i.lease_generation, i.claimed_by
from holdfast.inbox i
where i.claimed_by = any ($1::text[])
  and i.status = 'processing'
  and i.cancel_requested_at is not null
order by i.claimed_by
