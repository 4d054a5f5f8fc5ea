-- For how many days the archive and the events have partitions; and how many rows found none.
-- Takes    $1 schema, $2 how far to count.
-- Returns  for each: its name, days ahead of today without a gap, whether it is in use, and rows in its default partition. Events of the
--          first day are there by design, so only those of the last minutes count: others have come since.
select t.name,
       (select coalesce(min(n), 31)
        from generate_series(1, 30) n
        where to_regclass(format('%I.%I', $1::text, t.name || to_char((holdfast.clock() at time zone 'UTC') + make_interval(days => n),
                                                                       '"_"YYYYMMDD'))) is null) - 1 as ahead,
       t.name = 'archive' or exists (select from holdfast.routes) as used,
       case t.name when 'archive' then (select count(*) from (select from holdfast.archive_default limit $2::int) d)
                   else (select count(*) from (
                             select from holdfast.events_default e
                             where e.published_at > holdfast.clock() - interval '5 minutes' and exists (
                                 select from pg_inherits h where h.inhparent = 'holdfast.events'::regclass offset 1)
                             limit $2::int) d) end as strays
from unnest(array['archive', 'events']) as t (name)
