-- Claim one row whose last attempt took its process down, to be run alone.
-- Takes    $1 queues; $2 kinds, $3 their payload versions as in claim.sql; $4 worker; $5 lease in seconds.
-- Returns  the claim, or nothing.
-- Locks    the claimed row; never waits.
-- Index    idx_inbox_suspect, then the primary key.
with due as materialized (
    select i.id
    from holdfast.inbox i
    where i.status = 'pending'
      and i.crashes > 0
      and i.available_at <= holdfast.clock()
      and i.queue = any ($1::text[])
      and not exists (select from holdfast.queues q where q.name = i.queue and q.paused_at is not null)
      and holdfast.knows($2::text[], $3::jsonb, i.kind, i.payload_version)
      and i.attempts < i.max_attempts
    order by i.available_at, i.seq
    limit 1
    for update skip locked
)
update holdfast.inbox i
set status = 'processing',
    claimed_by = $4,
    claimed_at = holdfast.clock(),
    lease_expires_at = holdfast.clock() + make_interval(secs => $5),
    lease_generation = i.lease_generation + 1,
    attempts = i.attempts + 1,
    fence = nextval('holdfast.fence')
from due
where i.id = any (array[due.id])
returning i.id, i.lease_generation, i.fence, i.attempts, i.max_attempts, i.kind, i.payload_version,
          i.payload::text as payload, i.queue, i.partition_key, i.headers::text as headers, i.idempotency_key,
          i.cancel_requested_at is not null as cancelled
