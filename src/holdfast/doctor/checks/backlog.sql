-- How long the oldest due job of each queue waits that is not paused, and the hands of its live workers.
-- Takes    $1 most queues.
-- Index    idx_inbox_claim, by skips from queue to queue.
with recursive lane (queue, priority) as (
    (select i.queue, i.priority from holdfast.inbox i
     where i.status = 'pending' and not i.ordered and not i.owned order by i.queue, i.priority limit 1)
    union all
    select n.queue, n.priority
    from lane f
    cross join lateral (
        select i.queue, i.priority from holdfast.inbox i
        where i.status = 'pending' and not i.ordered and not i.owned and (i.queue, i.priority) > (f.queue, f.priority)
        order by i.queue, i.priority limit 1
    ) n
)
select l.queue, max(least(pg_catalog.date_part('epoch', holdfast.clock()) - pg_catalog.date_part('epoch', r.available_at), 3155760000::float8)) as oldest, max(h.hands)::int as hands, max(h.running)::int as running
from lane l
cross join lateral (
    select i.available_at
    from holdfast.inbox i
    where i.status = 'pending' and not i.ordered and not i.owned
      and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
    order by i.available_at, i.seq
    limit 1
) r
cross join lateral (
    select sum((w.metadata ->> 'concurrency')::float8) as hands, sum((w.metadata -> 'counters' ->> 'running')::float8) as running
    from holdfast.workers w
    where w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds' and w.metadata -> 'queues' ? l.queue
) h
where h.hands > 0
  and not exists (select from holdfast.queues q where q.name = l.queue and q.paused_at is not null)
group by l.queue
order by oldest desc
limit $1::int
