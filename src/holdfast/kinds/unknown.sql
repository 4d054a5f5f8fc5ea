-- Kinds of jobs that wait in these queues, and that neither this worker nor another live one can run.
-- Takes    $1 queues; $2 kinds, $3 their payload versions as in claim.sql; $4 most rows to look at per lane.
-- Returns  queue, kind, version, number of rows among those it looked at, and the application that declared the kind, if
--          one did: the kinds with the most rows first, 50 at most.
-- Locks    nothing.
-- Index    idx_inbox_claim and idx_inbox_ordered_claim per lane, idx_inbox_bucket_claim per queue: the rows that wait
--          longest. Jobs that no worker runs stay there, and all others leave. It never counts a table.
with lane as (
    select q.queue, p.priority
    from unnest($1::text[]) as q (queue)
    cross join unnest(array[0, 1, 2, 3]::smallint[]) as p (priority)
),
looked as materialized (
    select l.queue, row.kind, row.payload_version
    from lane l
    cross join lateral (
        select i.kind, i.payload_version
        from holdfast.inbox i
        where i.status = 'pending' and not i.ordered and not i.owned
          and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
        order by i.available_at, i.seq
        limit $4
    ) row
    union all
    select l.queue, row.kind, row.payload_version
    from lane l
    cross join lateral (
        select i.kind, i.payload_version
        from holdfast.inbox i
        where i.status = 'pending' and i.ordered and not i.owned
          and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
        order by i.available_at, i.seq
        limit $4
    ) row
    union all
    select q.queue, row.kind, row.payload_version
    from unnest($1::text[]) as q (queue)
    cross join lateral (
        select i.kind, i.payload_version, i.available_at
        from holdfast.inbox i
        where i.status = 'pending' and i.owned and i.queue = q.queue
        order by i.partition_bucket, i.priority, i.available_at, i.seq
        limit $4
    ) row
    where row.available_at <= holdfast.clock()
),
waiting as materialized (
    select l.queue, l.kind, l.payload_version as version, pg_catalog.count(*) as rows
    from looked l
    where l.kind is not null and not holdfast.knows($2::text[], $3::jsonb, l.kind, l.payload_version)
    group by l.queue, l.kind, l.payload_version
)
select w.queue, w.kind, w.version, w.rows, k.app
from waiting w
left join holdfast.kinds k on k.kind = w.kind
where not exists (
    select from holdfast.workers o
    where o.status = 'alive' and o.last_seen_at > holdfast.clock() - interval '30 seconds'
      and o.metadata -> 'queues'::text ? w.queue
      and w.version between (o.metadata -> 'kinds'::text -> w.kind ->> 0)::int and (o.metadata -> 'kinds'::text -> w.kind ->> 1)::int)
order by w.rows desc, w.queue, w.kind, w.version
limit 50
