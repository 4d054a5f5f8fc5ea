-- The newest events.
-- Takes    $1 types or null, $2 how many, $3 how many to look through (null: all, if it takes that).
-- Index    the primary key of each partition, from its end: ids begin with the time. Those of one millisecond are in no order,
--          so what is found is sorted.
with newest as not materialized (
    select e.id, e.seq, e.type, e.version, e.key, e.tenant, e.published_at
    from holdfast.events e
    order by e.id desc
    limit $3::int
),
types as materialized (                          -- there are few, and many events
    select distinct n.type from newest n where $1::text[] is not null
)
select f.id, f.type, f.version, f.key, f.tenant, f.published_at
from (
    select n.id, n.seq, n.type, n.version, n.key, n.tenant, n.published_at
    from newest n
    where $1::text[] is null or n.type in (select t.type from types t where holdfast.matches(t.type, $1::text[]))
    order by n.id desc
    limit $2
) f
order by f.published_at desc, f.seq desc
