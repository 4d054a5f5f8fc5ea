-- The stored gauges, and those that cost nothing to read: small tables say them.
-- Takes    $1 seconds after which stored gauges are not believed. Then they are measured now, which is bounded, too.
-- Returns  name, queue, kind, label, value, exact; and "gauges_age", seconds since they were measured.
with stored as materialized (
    select extract(epoch from holdfast.clock() - pg_catalog.max(g.at))::float8 as age
    from holdfast.gauges g
),
believed as materialized (
    select coalesce(s.age between -$1::float8 and $1::float8, false) as it from stored s
)
select g.name, g.queue, g.kind, g.label, g.value, g.exact
from holdfast.gauges g
where (select b.it from believed b)
union all
select m.name, m.queue, m.kind, m.label, m.value, m.exact
from believed b
cross join lateral holdfast.measure() m
where not b.it
union all
select 'gauges_age', '', '', '', case when b.it then greatest(s.age, 0::float8) else 0 end, true
from stored s, believed b
union all
select 'queue_paused', q.name, '', '', (q.paused_at is not null)::int, true
from holdfast.queues q
union all
select 'workers', '', '', l.status, pg_catalog.count(w.status), true
from pg_catalog.unnest(array['alive', 'draining', 'silent', 'dead']) as l (status)
left join (
    select case when w.status <> 'dead' and w.last_seen_at <= holdfast.clock() - interval '30 seconds' then 'silent'
                else w.status end as status
    from holdfast.workers w
) w on w.status = l.status
group by l.status
union all
select 'chore_age', '', '', c.name, greatest(extract(epoch from holdfast.clock() - c.ran_at)::float8, 0), true
from holdfast.chores c
union all
select 'schedules_late', '', '', '', pg_catalog.count(*), true
from holdfast.schedules s
where s.paused_at is null and s.next_at < holdfast.clock() - interval '60 seconds'
