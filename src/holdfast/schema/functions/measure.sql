-- Measure everything that is too expensive to count on demand; the chore "gauges" stores it. The cost is bounded: it looks
-- at "most_pages" of the inbox, and at "most" rows per lane. If the inbox has no more pages, the numbers are exact. Otherwise
-- those of lanes that have no more rows are, and the others are estimated from a sample.
-- Returns  name, queue, kind, label, value, exact:
--            jobs           {queue, label: state}, as count_lanes; "pending" is the depth
--            workflows      {kind, label: state}: queued, running, waiting, retrying, dead_letter
--            claim_age      {queue}: seconds, if something is due
--            unclaimable    {queue, kind}: jobs that no live worker can run
--            outbox_lag     {label: route}: seconds that the oldest due delivery has waited
--            horizon_age    transactions
create or replace function holdfast.measure(most int default 1000, most_pages int default 2000)
    returns table (name text, queue text, kind text, label text, value float8, exact boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    pages   constant bigint := pg_relation_size('holdfast.inbox') / current_setting('block_size')::int;
    percent constant float8 := case when pages <= most_pages then 100 else 100.0 * most_pages / pages end;
    queues  constant text[] := array(select q from holdfast.waiting_queues() q);
begin
    return query
    with sampled as materialized (
        select s.queue, s.kind, s.state, s.jobs from holdfast.sample_inbox(percent) s
    ),
    -- Those with more have full lanes: the sample has shown it, and nothing need be counted.
    small as materialized (
        select array(
            select q.queue from unnest(queues) as q (queue)
            where percent < 100
              and q.queue not in (select s.queue from sampled s where s.state = 'pending'
                                  group by s.queue having sum(s.jobs) > 5 * most)) as queues
    ),
    counted as materialized (
        select c.queue, c.kind, c.state, c.jobs, c.more
        from holdfast.count_lanes((select s.queues from small s), most) c
        where percent < 100
    ),
    uncounted as materialized (
        select distinct c.queue, c.state from counted c where c.more
    ),
    best as materialized (
        select b.queue, b.kind, b.state,
               case when percent = 100 then b.sampled
                    when b.counted is not null and not b.unknown then b.counted
                    when b.unknown then greatest(b.sampled, b.counted)
                    else 0 end as jobs,
               percent = 100 or not b.unknown as exact
        from (
            select b.queue, b.kind, b.state, b.sampled, b.counted,
                   exists (select from uncounted u
                           where u.state = b.state
                             -- Of these, the first thousand say nothing about other queues.
                             and (u.queue = b.queue or u.state in ('processing', 'dead_letters')))
                   or (b.queue <> all ((select s.queues from small s)::text[]) and b.state not in ('processing', 'dead_letters')) as unknown
            from (
                select coalesce(s.queue, c.queue) as queue, coalesce(s.kind, c.kind) as kind,
                       coalesce(s.state, c.state) as state, coalesce(s.jobs, 0) as sampled, c.jobs as counted
                from sampled s
                full join counted c on c.queue = s.queue and c.kind = s.kind and c.state = s.state
            ) b
        ) b
    ),
    ages as materialized (
        select a.queue, a.age from holdfast.claim_ages(queues) a
    )
    select 'jobs', b.queue, '', b.state, round(sum(b.jobs))::float8, bool_and(b.exact)
    from (
        select b.queue, b.state, b.jobs, b.exact from best b
        union all
        select q.queue, s.state, 0, true
        from (select unnest(queues) as queue union select b.queue from best b) q
        cross join unnest(array['pending', 'due', 'scheduled', 'sleeping', 'retrying', 'processing', 'blocked',
                                'dead_letters']) as s (state)
    ) b
    group by b.queue, b.state
    union all
    select 'workflows', '', b.kind, s.shown, round(greatest(sum(b.jobs * s.sign), 0))::float8, bool_and(b.exact)
    from best b
    join (values ('pending', 'queued', 1), ('retrying', 'queued', -1), ('blocked', 'queued', 1), ('retrying', 'retrying', 1),
                 ('sleeping', 'waiting', 1), ('processing', 'running', 1), ('dead_letters', 'dead_letter', 1))
         as s (state, shown, sign) on s.state = b.state
    where b.kind <> ''
    group by b.kind, s.shown
    union all
    select 'claim_age', a.queue, '', '', greatest(a.age, 0), true
    from ages a
    union all
    select 'unclaimable', u.queue, u.kind, '', sum(u.rows)::float8, not bool_or(u.more)
    from holdfast.unclaimable(queues, most / 2) u
    group by u.queue, u.kind
    union all
    select 'outbox_lag', '', '', r.name, coalesce(greatest(a.age, 0), 0), true
    from holdfast.routes r
    left join ages a on a.queue = r.queue
    where r.removed_at is null or a.age is not null
    union all
    select 'horizon_age', '', '', '', holdfast.horizon_age(), pg_has_role('pg_read_all_stats', 'usage');
end
$$;
