-- The events of claimed deliveries.
-- Takes    per delivery: $1 event, $2 day of its publication, in the order in which they are to be sent; $3 most bytes of data.
-- Returns  position, source, type, version, key, tenant, time of publication, headers and data as JSON: as many, from the first
--          on, as the bytes allow, and the first in any case. A position that is missing among them has no event any more.
-- Index    the primary key of the partition of that day.
select f.n, f.source, f.type, f.version, f.key, f.tenant, f.published_at, f.headers, f.data
from (
    select d.n, e.source, e.type, e.version, e.key, e.tenant, e.published_at, e.headers, e.data,
           pg_catalog.octet_length(e.data) as own, sum(pg_catalog.octet_length(e.data)) over (order by d.n) as bytes
    from unnest($1::uuid[], $2::date[]) with ordinality as d (event, day, n)
    cross join lateral (
        select e.source, e.type, e.version, e.key, e.tenant, e.published_at, e.headers::text as headers,
               e.data::text as data
        from holdfast.events e
        where e.id = d.event
          and e.published_at >= d.day::timestamp at time zone 'UTC'
          and e.published_at < (d.day + 1)::timestamp at time zone 'UTC'
        limit 1
    ) e
) f
where f.bytes <= $3 or f.bytes = f.own
order by f.n
