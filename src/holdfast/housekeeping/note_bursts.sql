-- Note in the journal which dead letters came in bursts: many of one error group in a minute.
-- Takes    $1 since and $2 before, both the beginning of a minute; $3 how many are a burst; $4 dead letters to look at, at most.
-- Returns  the rows of the journal. A burst that was noted before is not noted again.
-- Index    idx_inbox_dead.
with dead as materialized (
    select i.dead_at, i.queue, i.kind, i.error_group, i.last_error, i.errors -> -1 as newest
    from holdfast.inbox i
    where i.status = 'dead_letter' and i.dead_at >= $1::timestamptz and i.dead_at < $2::timestamptz
    order by i.dead_at
    limit $4::int
),
bursts as (
    select coalesce(d.error_group, d.kind, '') as of, pg_catalog.date_trunc('minute', d.dead_at) as minute, count(*) as count,
           min(d.dead_at) as since, max(d.dead_at) as until, min(d.queue) as queue, min(d.kind) as kind,
           min(d.newest ->> 'error'::text) as error, min(d.newest ->> 'place'::text) as place,
           pg_catalog.left(min(d.last_error), 300) as message, bool_or(d.error_group is not null) as grouped
    from dead d
    group by 1, 2
    having count(*) >= $3::int
)
insert into holdfast.journal (at, until, what, subject, count, details, slot)
select b.since, b.until, 'dead_letters.burst', b.of, b.count,
       pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
           'queue', b.queue, 'kind', b.kind, 'error', b.error, 'place', b.place, 'message', b.message,
           'group', case when b.grouped then b.of end,
           'more', case when (select count(*) from dead) >= $4::int then true end)),
       b.minute
from bursts b
order by b.of, b.minute
on conflict (what, subject, slot) where slot is not null do nothing
returning id
