-- Due jobs that no live worker of their queue can run, among those of each lane that wait longest: they stay there.
-- Takes    $1 how many to look at in each lane.
-- Returns  queue, kind, version, jobs, seconds that the oldest is due.
-- Index    idx_inbox_claim and idx_inbox_ordered_claim per lane, idx_inbox_bucket_claim per queue. It never counts a table.
with recursive free (queue, priority) as (
    (select i.queue, i.priority from holdfast.inbox i
     where i.status = 'pending' and not i.ordered and not i.owned order by i.queue, i.priority limit 1)
    union all
    select n.queue, n.priority
    from free f
    cross join lateral (
        select i.queue, i.priority from holdfast.inbox i
        where i.status = 'pending' and not i.ordered and not i.owned and (i.queue, i.priority) > (f.queue, f.priority)
        order by i.queue, i.priority limit 1
    ) n
),
ordered (queue, priority) as (
    (select i.queue, i.priority from holdfast.inbox i
     where i.status = 'pending' and i.ordered and not i.owned order by i.queue, i.priority limit 1)
    union all
    select n.queue, n.priority
    from ordered f
    cross join lateral (
        select i.queue, i.priority from holdfast.inbox i
        where i.status = 'pending' and i.ordered and not i.owned and (i.queue, i.priority) > (f.queue, f.priority)
        order by i.queue, i.priority limit 1
    ) n
),
owned (queue) as (
    (select i.queue from holdfast.inbox i where i.status = 'pending' and i.owned order by i.queue limit 1)
    union all
    select n.queue
    from owned f
    cross join lateral (
        select i.queue from holdfast.inbox i where i.status = 'pending' and i.owned and i.queue > f.queue order by i.queue limit 1
    ) n
),
looked as materialized (
    select r.queue, r.kind, r.payload_version, r.available_at
    from free l
    cross join lateral (
        select i.queue, i.kind, i.payload_version, i.available_at
        from holdfast.inbox i
        where i.status = 'pending' and not i.ordered and not i.owned
          and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
        order by i.available_at, i.seq
        limit $1::int
    ) r
    union all
    select r.queue, r.kind, r.payload_version, r.available_at
    from ordered l
    cross join lateral (
        select i.queue, i.kind, i.payload_version, i.available_at
        from holdfast.inbox i
        where i.status = 'pending' and i.ordered and not i.owned
          and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
        order by i.available_at, i.seq
        limit $1::int
    ) r
    union all
    select r.queue, r.kind, r.payload_version, r.available_at
    from owned l
    cross join lateral (
        select i.queue, i.kind, i.payload_version, i.available_at
        from holdfast.inbox i
        where i.status = 'pending' and i.owned and i.queue = l.queue
        order by i.partition_bucket, i.priority, i.available_at, i.seq
        limit $1::int
    ) r
    where r.available_at <= holdfast.clock()
)
select l.queue, coalesce(l.kind, '(no type)') as kind, l.payload_version as version, count(*) as jobs,
       extract(epoch from holdfast.clock() - min(l.available_at))::float8 as oldest
from looked l
where not starts_with(l.queue, 'hold.')
  and not exists (
      select from holdfast.workers w
      where w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
        and w.metadata -> 'queues' ? l.queue
        and l.payload_version between (w.metadata -> 'kinds' -> l.kind ->> 0)::int and (w.metadata -> 'kinds' -> l.kind ->> 1)::int)
group by 1, 2, 3
order by jobs desc
