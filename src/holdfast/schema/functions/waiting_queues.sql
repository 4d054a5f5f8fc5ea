-- The queues in which jobs are pending or blocked, and those that have a row of their own; 500 at most.
-- Index    those of the claims and idx_inbox_blocked, one look per queue: it walks over no row.
create or replace function holdfast.waiting_queues() returns setof text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set plan_cache_mode = force_generic_plan
    as $$
begin
    return query
    with recursive free as (
        (select i.queue from holdfast.inbox i where i.status = 'pending' and not i.ordered and not i.owned
         order by i.queue limit 1)
        union all
        select (select i.queue from holdfast.inbox i where i.status = 'pending' and not i.ordered and not i.owned
                  and i.queue > f.queue
                order by i.queue limit 1)
        from free f
        where f.queue is not null
    ),
    in_order as (
        (select i.queue from holdfast.inbox i where i.status = 'pending' and i.ordered and not i.owned
         order by i.queue limit 1)
        union all
        select (select i.queue from holdfast.inbox i where i.status = 'pending' and i.ordered and not i.owned
                  and i.queue > f.queue
                order by i.queue limit 1)
        from in_order f
        where f.queue is not null
    ),
    owned as (
        (select i.queue from holdfast.inbox i where i.status = 'pending' and i.owned order by i.queue limit 1)
        union all
        select (select i.queue from holdfast.inbox i where i.status = 'pending' and i.owned and i.queue > f.queue
                order by i.queue limit 1)
        from owned f
        where f.queue is not null
    ),
    blocked as (
        (select i.queue from holdfast.inbox i where i.status = 'blocked' order by i.queue limit 1)
        union all
        select (select i.queue from holdfast.inbox i where i.status = 'blocked' and i.queue > f.queue
                order by i.queue limit 1)
        from blocked f
        where f.queue is not null
    )
    select a.queue
    from (
        (select q.name as queue from holdfast.queues q limit 500)
        union
        (select f.queue from free f limit 500)
        union
        (select o.queue from in_order o limit 500)
        union
        (select o.queue from owned o limit 500)
        union
        (select b.queue from blocked b limit 500)
    ) a
    where a.queue is not null
    limit 500;
end
$$;
