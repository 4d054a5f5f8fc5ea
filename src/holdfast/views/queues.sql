-- All queues: the depth, without workflow instances that sleep or wait; and the claim age: how long the oldest due row has waited.
-- Index    the claim's indexes, per queue and priority, for the age; the counts read the live rows.
with depth as (
    select i.queue,
           count(*) filter (where i.status = 'pending' and k.kind is null) as pending,
           count(*) filter (where i.status = 'pending' and i.available_at <= holdfast.clock()) as due,
           count(*) filter (where i.status = 'pending' and i.available_at > holdfast.clock() and i.attempts = 0 and k.kind is null) as scheduled,
           count(*) filter (where k.kind is not null) as sleeping,
           count(*) filter (where i.status = 'processing') as processing,
           count(*) filter (where i.status = 'blocked') as blocked,
           count(*) filter (where i.status = 'dead_letter') as dead_letters,
           count(*) filter (where i.status = 'pending' and i.attempts > 0) as retrying,
           count(*) filter (where i.owned) as owned
    from holdfast.inbox i
    -- Instances that have begun, and sleep or wait: no worker has to do anything about them.
    left join holdfast.kinds k
      on k.workflow and k.kind = i.kind and i.status = 'pending' and i.lease_generation > 0 and i.attempts = 0
     and i.available_at > holdfast.clock()
    group by i.queue
)
select coalesce(d.queue, q.name) as queue,
       coalesce(d.pending, 0) as pending, coalesce(d.due, 0) as due, coalesce(d.scheduled, 0) as scheduled, coalesce(d.sleeping, 0) as sleeping, coalesce(d.processing, 0) as processing,
       coalesce(d.blocked, 0) as blocked, coalesce(d.dead_letters, 0) as dead_letters, coalesce(d.retrying, 0) as retrying,
       q.paused_at,
       case when q.ordered then case when q.skips then 'ordered, skips' else 'ordered' end || case when q.owned then ', owned' else '' end
            when q.owned then 'owned' else 'free' end as mode,
       case when waiting.since is not null
            then least(pg_catalog.date_part('epoch', holdfast.clock()) - pg_catalog.date_part('epoch', waiting.since), 3155760000::float8)
       end as claim_age
from depth d
full join holdfast.queues q on q.name = d.queue
cross join lateral (
    select min(o.available_at) as since
    from generate_series(0, 3) p (priority)
    cross join lateral (
        (
            select i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and not i.ordered and not i.owned
              and i.queue = d.queue and i.priority = p.priority and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit 1
        )
        union all
        (
            select i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and i.ordered and not i.owned
              and i.queue = d.queue and i.priority = p.priority and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit 1
        )
        union all
        (
            select i.available_at
            from generate_series(0, 1023) b (bucket)
            cross join lateral (
                select i.available_at
                from holdfast.inbox i
                where i.status = 'pending' and i.owned and i.partition_bucket = b.bucket
                  and i.queue = d.queue and i.priority = p.priority and i.available_at <= holdfast.clock()
                order by i.available_at, i.seq
                limit 1
            ) i
            where d.owned > 0
        )
    ) o
    -- What is held for a webhook endpoint that is paused or disabled does not wait for a claim.
    where not starts_with(d.queue, 'hold.')
) waiting
order by 1
