-- One job, and the job that holds its ordered key, with everything that decides when they run.
-- Takes    $1 job (null: find it by $2), $2 the id of a job or a workflow instance, as text, $3 the schema version of this
--          release, $4 how far to count.
-- Returns  the job and its head; a row without an id if there is no such job. On each: the time, the versions of the schema, and
--          the last sweep.
-- Index    primary keys, idx_archive_id; for what holds an ordered key, idx_inbox_key and idx_inbox_partition_processing; for its
--          place, the claim's indexes, from its row backwards; idx_inbox_error_group for those that have the same error;
--          idx_journal_at for who did it.
with wanted as materialized (
    select coalesce($1::uuid, holdfast.instance_id($2::text)) as id
),
head as materialized (
    select b.id
    from wanted w
    join holdfast.inbox i on i.id = w.id
    cross join lateral (
        (
            select p.id
            from holdfast.inbox p
            where p.ordered and p.status = 'processing' and p.queue = i.queue and p.partition_key = i.partition_key
        )
        union all
        (
            select h.id
            from holdfast.inbox h
            where h.ordered and h.status in ('pending', 'blocked') and h.queue = i.queue and h.partition_key = i.partition_key
              and h.seq < i.seq
              and not (h.skips and h.status::text = 'pending' and h.available_at > holdfast.clock())
            order by h.seq
            limit 1
        )
    ) b
    where i.ordered and i.status::text in ('pending', 'blocked')
    limit 1
),
live as materialized (
    select i.id, i.seq, case when i.status::text = 'failed' and i.cancel_requested_at is not null then 'cancelled' else i.status::text end as status,
           i.queue, i.priority, i.kind, i.payload_version as version, i.partition_key as key,
           i.partition_bucket as bucket, i.ordered, i.owned, i.attempts, i.max_attempts, i.crashes, i.lease_generation as generation,
           i.errors -> -1 -> 'generation'::text as failed_generation, i.claimed_by, i.claimed_at, i.lease_expires_at,
           i.available_at, i.cancel_requested_at, i.expires_at, coalesce(i.dead_at, i.completed_at) as finished_at, i.last_error,
           i.error_group, i.payload ->> 'endpoint'::text as endpoint, i.idempotency_key
    from holdfast.inbox i
    where i.id = any (array[(select w.id from wanted w), (select h.id from head h)])
),
job as materialized (
    select l.* from live l
    union all
    select a.id, a.seq, a.status::text, a.queue, a.priority, a.kind, a.payload_version, a.partition_key, a.partition_bucket, false, false,
           a.attempts, a.max_attempts, 0, a.lease_generation, null, a.claimed_by, a.claimed_at, null,
           a.available_at, a.cancel_requested_at, null, a.finished_at, a.last_error, null, null, a.idempotency_key
    from holdfast.archive a
    where a.id = (select w.id from wanted w)
),
around as (                                      -- what the journal says about the moments at which somebody acted
    select j.id, b.what, b.subject, b.actor, b.details
    from job j
    left join holdfast.queues q on q.name = j.queue
    left join holdfast.instances n on n.job_id = j.id
    cross join lateral pg_catalog.unnest(array[j.finished_at, q.paused_at, n.paused_at]) as m (at)
    cross join lateral (
        select b.what, b.subject, b.actor, b.details
        from holdfast.journal b
        where b.at between m.at - interval '2 seconds' and m.at + interval '2 seconds' and b.actor is not null
        order by b.at
        limit 100
    ) b
)
select holdfast.clock() as now,
       (select max(m.version) from holdfast.migrations m) as found_version,
       (select min(m.version) from holdfast.migrations m
        where m.version > $3::int and coalesce(m.oldest, m.version) > $3::int) as refused_version,
       sweep.ran_at as swept_at, sweep.result ->> 'error'::text as sweep_error,
       j.id is distinct from (select w.id from wanted w) as is_head,
       j.id, j.status, j.queue, j.kind, j.version, j.key, j.bucket, j.ordered, j.owned, j.attempts, j.max_attempts, j.crashes,
       j.generation, j.failed_generation, j.claimed_by, j.claimed_at, j.lease_expires_at, j.available_at, j.cancel_requested_at,
       j.expires_at, j.finished_at, j.last_error,
       (select r.actor from around r
        where r.id = j.id
          and (r.what in ('jobs.cancelled', 'jobs.discarded') and r.details -> 'jobs'::text ? j.id::text
               or r.what in ('job.cancelled', 'workflow.cancelled') and r.subject in (j.id::text, j.idempotency_key))
        limit 1) as acted,
       q.paused_at, (select r.actor from around r where r.id = j.id and r.what = 'queue.paused' and r.subject = j.queue limit 1) as paused_by,
       case when j.status = 'dead_letter' and j.error_group is not null
            then (select count(*) from (
                      select from holdfast.inbox d where d.status = 'dead_letter' and d.error_group = j.error_group limit $4::int + 1
                  ) a) end as alike,
       case when j.status <> 'pending' or j.available_at > holdfast.clock() then null
            when j.owned then (select count(*) from (
                      select from holdfast.inbox b
                      where b.status = 'pending' and b.owned and b.queue = j.queue and b.partition_bucket = j.bucket
                        and b.priority = j.priority and (b.available_at, b.seq) < (j.available_at, j.seq)
                      limit $4::int + 1) a)
            when j.ordered then (select count(*) from (
                      select from holdfast.inbox b
                      where b.status = 'pending' and b.ordered and not b.owned and b.queue = j.queue
                        and b.priority = j.priority and (b.available_at, b.seq) < (j.available_at, j.seq)
                      limit $4::int + 1) a)
            else (select count(*) from (
                      select from holdfast.inbox b
                      where b.status = 'pending' and not b.ordered and not b.owned and b.queue = j.queue
                        and b.priority = j.priority and (b.available_at, b.seq) < (j.available_at, j.seq)
                      limit $4::int + 1) a) end as ahead,
       (select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
                   'id', w.id, 'status', w.status, 'silent', extract(epoch from holdfast.clock() - w.last_seen_at)::float8,
                   'serves', coalesce(w.metadata -> 'queues'::text ? j.queue, false),
                   'knows', w.metadata -> 'kinds'::text -> j.kind,
                   'hands', w.metadata -> 'concurrency'::text,
                   'running', w.metadata -> 'counters'::text -> 'running'::text,
                   'away', w.metadata -> 'counters'::text -> 'away'::text))
        from holdfast.workers w
        where j.status in ('pending', 'blocked', 'processing')
          and (w.status <> 'dead' or w.id = j.claimed_by))::text as workers,
       coalesce(f.instance, f.job_id::text) as instance, f.state, f.since, f.waits, f.wake_at, n.paused_at as instance_paused_at,
       (select r.actor from around r
        where r.id = j.id and r.what = 'workflow.paused' and r.subject in (j.id::text, j.idempotency_key)
        limit 1) as instance_paused_by,
       f.dead_children, exists (select from holdfast.steps s where s.job_id = j.id and s.name = 'undo:' and s.n = 0) as undoing,
       j.endpoint, e.url, e.status as endpoint_status, e.failing_since, e.disabled_at, e.disabled_reason,
       t.name as route, t.destination, t.removed_at
from (select from wanted) one
left join job j on true
left join holdfast.chores sweep on sweep.name = 'sweep'
left join holdfast.queues q on q.name = j.queue
left join holdfast.workflows f on f.job_id = j.id
left join holdfast.instances n on n.job_id = j.id
left join holdfast.endpoints e
       on e.id = case when j.kind = '@deliver' and j.endpoint ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then j.endpoint::uuid end
left join holdfast.routes t
       on j.kind = '@deliver' and (t.queue = j.queue or pg_catalog.starts_with(j.queue, t.queue || '.'))
order by is_head
