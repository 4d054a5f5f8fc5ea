-- Due jobs of these queues that no live worker can run, by queue, kind and version: among the oldest "look" of each lane.
-- Jobs that no worker runs stay at the front, and all others leave.
-- Returns  queue, kind ('(none)': the payload has no "type"), version, rows, since when the oldest is due, why, which
--          application declared the kind; and whether there may be more.
-- Index    those of the claims.
create or replace function holdfast.unclaimable(queues text[], look int)
    returns table (queue text, kind text, version int, rows bigint, since timestamptz, reason text, app text, more boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set plan_cache_mode = force_generic_plan
    as $$
#variable_conflict use_column
begin
    return query
    with lane as materialized (
        select q.queue, p.priority
        from unnest(queues) as q (queue)
        cross join unnest(array[0, 1, 2, 3]::smallint[]) as p (priority)
        where not starts_with(q.queue, 'hold.')      -- for webhook endpoints that are paused or disabled
    ),
    looked as materialized (
        select l.queue, l.priority, 'free' as course, row.kind, row.payload_version, row.available_at
        from lane l
        cross join lateral (
            select i.kind, i.payload_version, i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and not i.ordered and not i.owned
              and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit look
        ) row
        union all
        select l.queue, l.priority, 'ordered', row.kind, row.payload_version, row.available_at
        from lane l
        cross join lateral (
            select i.kind, i.payload_version, i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and i.ordered and not i.owned
              and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit look
        ) row
        union all
        select l.queue, l.priority, 'owned', row.kind, row.payload_version, row.available_at
        from lane l
        cross join lateral (
            select i.kind, i.payload_version, i.available_at
            from holdfast.inbox i
            where l.priority = 0 and i.status = 'pending' and i.owned and i.queue = l.queue
            order by i.partition_bucket, i.priority, i.available_at, i.seq
            limit look
        ) row
        where row.available_at <= holdfast.clock()
    ),
    full_lane as materialized (
        select l.queue from looked l group by l.queue, l.priority, l.course having count(*) >= look
    ),
    waiting as materialized (
        select l.queue, l.kind, l.payload_version as version, count(*) as rows, min(l.available_at) as since,
               l.queue in (select f.queue from full_lane f) as more
        from looked l
        group by l.queue, l.kind, l.payload_version
    ),
    live as materialized (
        select w.metadata -> 'queues' as queues, w.metadata -> 'kinds' as kinds
        from holdfast.workers w
        where w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
    )
    select w.queue, coalesce(w.kind, '(none)'), w.version, w.rows, w.since,
           case when w.kind is null then 'the payload has no "type"'
                when not exists (select from live l where l.queues ? w.queue) then 'no live worker serves this queue'
                when not exists (select from live l where l.queues ? w.queue and l.kinds ? w.kind)
                then 'no live worker knows this kind'
                else 'no live worker knows this version' end,
           (select k.app from holdfast.kinds k where k.kind = w.kind), w.more
    from waiting w
    where not exists (
        select from live l
        where l.queues ? w.queue
          and w.version between (l.kinds -> w.kind ->> 0)::int and (l.kinds -> w.kind ->> 1)::int)
    order by w.rows desc, w.queue, w.kind, w.version
    limit 50;
end
$$;
