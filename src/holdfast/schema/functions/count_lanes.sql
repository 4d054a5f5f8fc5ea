-- How many live jobs these queues have, by state, counted up to "most" in each lane, so that the cost is bounded. A job can
-- be in several states: one that is due is pending, too. Of workflows also by kind.
-- Returns  queue, kind (of a workflow, else ''), state, jobs; and whether there are more, so that the number says nothing.
-- Index    those of the claims, idx_inbox_blocked, idx_inbox_stale_processing, idx_inbox_dead.
create or replace function holdfast.count_lanes(queues text[], most int)
    returns table (queue text, kind text, state text, jobs bigint, more boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set plan_cache_mode = force_generic_plan
    as $$
#variable_conflict use_column
declare
    flows constant text[] := array(select k.kind from holdfast.kinds k where k.workflow);
begin
    return query
    with lane as materialized (
        select q.queue, p.priority
        from unnest(queues) as q (queue)
        cross join unnest(array[0, 1, 2, 3]::smallint[]) as p (priority)
    ),
    looked as materialized (
        select l.queue, l.priority, 'free' as course, row.kind, row.attempts, row.lease_generation, row.available_at
        from lane l
        cross join lateral (
            select i.kind, i.attempts, i.lease_generation, i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and not i.ordered and not i.owned and i.queue = l.queue and i.priority = l.priority
            order by i.available_at, i.seq       -- or the planner takes another index
            limit most + 1
        ) row
        union all
        select l.queue, l.priority, 'ordered', row.kind, row.attempts, row.lease_generation, row.available_at
        from lane l
        cross join lateral (
            select i.kind, i.attempts, i.lease_generation, i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and i.ordered and not i.owned and i.queue = l.queue and i.priority = l.priority
            order by i.available_at, i.seq       -- or the planner takes another index
            limit most + 1
        ) row
        union all
        select q.queue, 0, 'owned', row.kind, row.attempts, row.lease_generation, row.available_at
        from unnest(queues) as q (queue)
        cross join lateral (
            select i.kind, i.attempts, i.lease_generation, i.available_at
            from holdfast.inbox i
            where i.status = 'pending' and i.owned and i.queue = q.queue
            order by i.partition_bucket, i.priority, i.available_at, i.seq
            limit most + 1
        ) row
    ),
    full_lane as materialized (
        select distinct l.queue
        from (select l.queue from looked l group by l.queue, l.priority, l.course having count(*) > most) l
    ),
    judged as (
        select l.queue, case when l.kind = any (flows) then l.kind else '' end as kind, l.attempts,
               l.available_at <= holdfast.clock() as due,
               l.kind = any (flows) and l.lease_generation > 0 and l.attempts = 0
                   and l.available_at > holdfast.clock() as sleeping
        from looked l
    ),
    blocked as materialized (
        select q.queue, row.kind
        from unnest(queues) as q (queue)
        cross join lateral (
            select i.kind
            from holdfast.inbox i
            where i.status = 'blocked' and i.queue = q.queue
            order by i.partition_key, i.seq
            limit most + 1
        ) row
    ),
    running as materialized (
        select i.queue, i.kind from holdfast.inbox i where i.status = 'processing' order by i.lease_expires_at limit most * 2 + 1
    ),
    dead as materialized (
        select i.queue, i.kind from holdfast.inbox i where i.status = 'dead_letter' order by i.dead_at limit most + 1
    )
    select j.queue, j.kind, s.state, s.jobs, j.queue in (select f.queue from full_lane f)
    from (
        select j.queue, j.kind, count(*) filter (where not coalesce(j.sleeping, false)) as pending,
               count(*) filter (where j.due) as due,
               count(*) filter (where not j.due and j.attempts = 0 and not coalesce(j.sleeping, false)) as scheduled,
               count(*) filter (where j.sleeping) as sleeping, count(*) filter (where j.attempts > 0) as retrying
        from judged j
        group by j.queue, j.kind
    ) j
    cross join lateral (values ('pending', j.pending), ('due', j.due), ('scheduled', j.scheduled), ('sleeping', j.sleeping),
                               ('retrying', j.retrying)) as s (state, jobs)
    union all
    select b.queue, case when b.kind = any (flows) then b.kind else '' end, 'blocked', count(*),
           (select count(*) from blocked o where o.queue = b.queue) > most
    from blocked b
    group by 1, 2
    union all
    select r.queue, case when r.kind = any (flows) then r.kind else '' end, 'processing', count(*),
           (select count(*) from running) > most * 2
    from running r
    group by 1, 2
    union all
    select d.queue, case when d.kind = any (flows) then d.kind else '' end, 'dead_letters', count(*),
           (select count(*) from dead) > most
    from dead d
    group by 1, 2;
end
$$;
