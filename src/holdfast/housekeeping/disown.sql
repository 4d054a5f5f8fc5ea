-- Make due rows claimable by every worker if their owner may never take them: of a queue that is not owned any more, or
-- has no row in "queues" any more, or of a kind or version that some live worker of the queue does not know, because that
-- worker may be the owner.
-- Takes    $1 batch, $2 most rows to look at.
-- Returns  the ids.
-- Locks    the rows, skipping locked ones.
-- Index    idx_inbox_bucket_claim: one step per queue with owned rows, then only the queues where this can happen.
with recursive filled as (
    (
        select i.queue
        from holdfast.inbox i
        where i.status = 'pending' and i.owned and i.queue > ''
        order by i.queue
        limit 1
    )
    union all
    select next.queue
    from filled f
    cross join lateral (
        select i.queue
        from holdfast.inbox i
        where i.status = 'pending' and i.owned and i.queue > f.queue
        order by i.queue
        limit 1
    ) next
),
live as materialized (
    select q.queue, w.metadata -> 'kinds'::text as kinds
    from holdfast.workers w
    cross join lateral jsonb_array_elements_text(w.metadata -> 'queues'::text) as q (queue)
    where w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
),
doubtful as materialized (
    select l.queue, true as mixed from live l group by l.queue having pg_catalog.count(distinct l.kinds) > 1
    union all
    select f.queue, false
    from filled f
    where not exists (select from holdfast.queues q where q.name = f.queue and q.owned)
),
looked as materialized (
    select row.id, row.queue, row.kind, row.payload_version, d.mixed
    from doubtful d
    cross join lateral (
        select i.id, i.queue, i.kind, i.payload_version
        from holdfast.inbox i
        where i.status = 'pending' and i.owned and i.queue = d.queue and i.available_at <= holdfast.clock()
        order by i.partition_bucket, i.priority, i.available_at, i.seq
        limit $2
    ) row
),
chosen as materialized (
    select i.id
    from looked l
    join holdfast.inbox i on i.id = any (array[l.id])
    where i.status::text = 'pending'
      and (not l.mixed or exists (
          select from live w
          where w.queue = l.queue
            and not coalesce(l.payload_version between (w.kinds -> l.kind ->> 0)::int and (w.kinds -> l.kind ->> 1)::int, false)))
    limit $1
    for update of i skip locked
)
update holdfast.inbox i
set owned = false, available_at = clock_timestamp()
from chosen c
where i.id = any (array[c.id])
returning i.id
