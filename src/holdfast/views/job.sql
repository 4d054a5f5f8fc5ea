-- One job, live or ended, with what decides whether it can run now.
-- Takes    $1 id.
-- Index    primary key of inbox, idx_archive_id.
select j.id, j.queue, j.kind, j.status::text as status, j.priority, j.partition_key as key, j.partition_bucket as bucket,
       j.attempts, j.max_attempts, j.crashes, j.claimed_by, j.claimed_at, j.lease_expires_at, j.lease_generation as generation,
       j.fence, j.available_at, j.cancel_requested_at, j.payload, j.payload_version as version, j.headers, j.last_error,
       j.errors, j.idempotency_key, j.result, j.created_at, j.finished_at,
       holdfast.clock() as now,
       q.paused_at is not null as paused,
       exists (
           select from holdfast.workers w
           where w.status = 'alive'
             and w.last_seen_at > holdfast.clock() - interval '30 seconds'
             and w.metadata -> 'queues' ? j.queue
             and j.payload_version between (w.metadata -> 'kinds' -> j.kind ->> 0)::int and (w.metadata -> 'kinds' -> j.kind ->> 1)::int
       ) as runnable_somewhere,
       exists (
           select from holdfast.workers w
           where w.id = j.claimed_by and w.status <> 'dead' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
       ) as owner_seen
from holdfast.jobs j
left join holdfast.queues q on q.name = j.queue
where j.id = $1
