-- How many live jobs there are, by queue and state, estimated from this share of the pages of the inbox, in percent; 100
-- counts them all. A job can be in several states: one that is due is pending, too. Of workflows also by kind.
-- Returns  queue, kind (of a workflow, else ''), state, jobs.
-- Index    none: it reads pages.
create or replace function holdfast.sample_inbox(percent float8)
    returns table (queue text, kind text, state text, jobs float8)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    now   constant timestamptz := holdfast.clock();
    flows constant text[] := array(select k.kind from holdfast.kinds k where k.workflow);
begin
    return query
    -- Grouped first, and counted into the states after that: a filter for each state, on each row, takes twice as long.
    with seen as (
        select i.queue, case when i.kind = any (flows) then i.kind end as flow, i.status, i.attempts > 0 as tried,
               i.lease_generation > 0 as begun, i.available_at <= now as due, count(*) as jobs
        from holdfast.inbox i tablesample system (percent)
        group by 1, 2, 3, 4, 5, 6
    ),
    judged as (
        select s.queue, coalesce(s.flow, '') as kind, s.status, s.tried, s.due, s.jobs,
               s.flow is not null and s.begun and not s.tried and s.status = 'pending' and not s.due as sleeping
        from seen s
    )
    select j.queue, j.kind, s.state, s.jobs::float8 * 100 / percent
    from (
        select j.queue, j.kind,
               sum(j.jobs) filter (where j.status = 'pending' and not j.sleeping) as pending,
               sum(j.jobs) filter (where j.status = 'pending' and j.due) as due,
               sum(j.jobs) filter (where j.status = 'pending' and not j.due and not j.tried and not j.sleeping) as scheduled,
               sum(j.jobs) filter (where j.sleeping) as sleeping,
               sum(j.jobs) filter (where j.status = 'pending' and j.tried) as retrying,
               sum(j.jobs) filter (where j.status = 'processing') as processing,
               sum(j.jobs) filter (where j.status = 'blocked') as blocked,
               sum(j.jobs) filter (where j.status = 'dead_letter') as dead_letters
        from judged j
        group by j.queue, j.kind
    ) j
    cross join lateral (values ('pending', j.pending), ('due', j.due), ('scheduled', j.scheduled), ('sleeping', j.sleeping),
                               ('retrying', j.retrying), ('processing', j.processing), ('blocked', j.blocked),
                               ('dead_letters', j.dead_letters)) as s (state, jobs)
    where s.jobs > 0;
end
$$;
