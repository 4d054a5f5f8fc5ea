-- One job, live or ended, with what decides whether it can run now.
-- Takes    $1 id.
-- Index    primary key of inbox, idx_archive_id; for what holds an ordered key, idx_inbox_key and that of processing keys.
select j.id, j.queue, j.kind, j.status::text as status, j.priority, j.partition_key as key, j.partition_bucket as bucket,
       j.attempts, j.max_attempts, j.crashes, j.claimed_by, j.claimed_at, j.lease_expires_at, j.lease_generation as generation,
       j.fence, j.available_at, j.cancel_requested_at, j.payload, j.payload_version as version, j.headers, j.last_error,
       j.errors, j.idempotency_key, j.result, j.created_at, j.finished_at,
       (select i.progress from holdfast.inbox i where i.id = $1) as progress,
       holdfast.clock() as now,
       q.paused_at is not null as paused,
       exists (
           select from holdfast.workers w
           where w.status = 'alive'
             and w.last_seen_at > holdfast.clock() - interval '30 seconds'
             and w.metadata -> 'queues'::text ? j.queue
             and j.payload_version between (w.metadata -> 'kinds'::text -> j.kind ->> 0)::int and (w.metadata -> 'kinds'::text -> j.kind ->> 1)::int
       ) as runnable_somewhere,
       exists (
           select from holdfast.workers w
           where w.id = j.claimed_by and w.status <> 'dead' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
       ) as owner_seen,
       first.id as blocked_by, first.status::text as blocker_status, first.claimed_by as blocker_worker,
       first.available_at as blocker_due
from holdfast.jobs j
left join holdfast.queues q on q.name = j.queue
left join lateral (
    select b.id, b.status, b.claimed_by, b.available_at
    from holdfast.inbox i
    cross join lateral (
        (
            select p.id, p.status, p.claimed_by, p.available_at
            from holdfast.inbox p
            where p.ordered and p.status = 'processing' and p.queue = i.queue and p.partition_key = i.partition_key
        )
        union all
        (
            select h.id, h.status, h.claimed_by, h.available_at
            from holdfast.inbox h
            where h.ordered and h.status in ('pending', 'blocked') and h.queue = i.queue and h.partition_key = i.partition_key
              and h.seq < i.seq
              and not (h.skips and h.status::text = 'pending' and h.available_at > holdfast.clock())
            order by h.seq
            limit 1
        )
    ) b
    where i.id = $1 and i.ordered and i.status::text in ('pending', 'blocked')
    limit 1
) first on true
where j.id = $1
