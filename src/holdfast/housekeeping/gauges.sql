-- Measure the gauges and store them; and note in the minutes what waits now.
-- Returns  how many.
-- Locks    the rows of the gauges and of this minute.
-- Index    see holdfast.measure(); the primary keys of gauges and minutes.
with measured as materialized (
    select m.name, m.queue, m.kind, m.label, m.value, m.exact from holdfast.measure() m
),
put as (
    insert into holdfast.gauges (name, queue, kind, label, value, exact, at)
    select m.name, m.queue, m.kind, m.label, m.value, m.exact, holdfast.clock()
    from measured m
    on conflict (name, queue, kind, label) do update set value = excluded.value, exact = excluded.exact, at = excluded.at
    returning 1
),
gone as (
    delete from holdfast.gauges g
    where not exists (select from measured m where m.name = g.name and m.queue = g.queue and m.kind = g.kind and m.label = g.label)
    returning 1
),
waiting as (
    select m.queue, pg_catalog.sum(m.value) filter (where m.name = 'jobs')::bigint as depth,
           pg_catalog.max(m.value) filter (where m.name = 'claim_age') as age
    from measured m
    where m.name = 'claim_age' or (m.name = 'jobs' and m.label = 'pending')
    group by m.queue
),
noted as (
    insert into holdfast.minutes (at, queue, kind, depth, claim_age)
    select date_trunc('minute', holdfast.clock()), w.queue, '', w.depth, w.age
    from (
        select w.queue, w.depth, w.age from waiting w where w.depth > 0 or w.age is not null
        union all
        select '', 0, null      -- that something measured, even if nothing waits
    ) w
    order by w.queue
    on conflict (at, queue, kind) do update
    set depth = greatest(minutes.depth, excluded.depth), claim_age = greatest(minutes.claim_age, excluded.claim_age)
    returning 1
)
select (select count(*) from put)::int as gauges, (select count(*) from gone)::int as gone, (select count(*) from noted)::int as noted
