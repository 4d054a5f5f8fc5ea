-- The claim age of each of these queues: how long its oldest due row has waited, in seconds. Queues in which nothing is due
-- are left out, and those that hold deliveries for webhook endpoints that are paused or disabled.
-- Index    those of the claims: one look per queue and priority; of an owned queue one per bucket in use, too.
create or replace function holdfast.claim_ages(queues text[]) returns table (queue text, age float8)
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
    with recursive lane as materialized (
        select q.queue, p.priority
        from unnest(queues) as q (queue)
        cross join unnest(array[0, 1, 2, 3]::smallint[]) as p (priority)
        where not starts_with(q.queue, 'hold.')
    ),
    bucket as (
        select q.queue, (select i.partition_bucket from holdfast.inbox i
                         where i.status = 'pending' and i.owned and i.queue = q.queue
                         order by i.partition_bucket limit 1) as bucket
        from unnest(queues) as q (queue)
        where not starts_with(q.queue, 'hold.')
        union all
        select b.queue, (select i.partition_bucket from holdfast.inbox i
                         where i.status = 'pending' and i.owned and i.queue = b.queue and i.partition_bucket > b.bucket
                         order by i.partition_bucket limit 1)
        from bucket b
        where b.bucket is not null
    ),
    oldest as (
        select l.queue, row.available_at
        from lane l
        cross join lateral (
            select i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and not i.ordered and not i.owned
              and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit 1
        ) row
        union all
        select l.queue, row.available_at
        from lane l
        cross join lateral (
            select i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and i.ordered and not i.owned
              and i.queue = l.queue and i.priority = l.priority and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit 1
        ) row
        union all
        select b.queue, row.available_at
        from bucket b
        cross join unnest(array[0, 1, 2, 3]::smallint[]) as p (priority)
        cross join lateral (
            select i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and i.owned
              and i.queue = b.queue and i.partition_bucket = b.bucket and i.priority = p.priority
              and i.available_at <= holdfast.clock()
            order by i.available_at, i.seq
            limit 1
        ) row
        where b.bucket is not null
    )
    select o.queue, least(date_part('epoch', holdfast.clock()) - date_part('epoch', min(o.available_at)), 3155760000::float8)
    from oldest o
    group by o.queue;
end
$$;
