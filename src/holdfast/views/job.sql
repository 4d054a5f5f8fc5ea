-- One job, live or ended. Why it does not run: explain.sql.
-- Takes    $1 id.
-- Index    primary key of inbox, idx_archive_id.
select j.id, j.queue, j.kind, j.status::text as status, j.priority, j.partition_key as key, j.partition_bucket as bucket,
       j.attempts, j.max_attempts, j.crashes, j.claimed_by, j.claimed_at, j.lease_expires_at, j.lease_generation as generation,
       j.fence, j.available_at, j.cancel_requested_at, j.payload, j.payload_version as version, j.headers, j.last_error,
       j.errors, j.idempotency_key, j.result, j.created_at, j.finished_at,
       (select i.progress from holdfast.inbox i where i.id = $1) as progress,
       (select i.expires_at from holdfast.inbox i where i.id = $1) as expires_at,
       holdfast.clock() as now
from holdfast.jobs j
where j.id = $1
