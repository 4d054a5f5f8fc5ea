-- Partitions of the archive, and rows that found none
-- Partitions are made seven days ahead by housekeeping. None for tomorrow: no worker ran lately.
select c.relname as partition, pg_get_expr(c.relpartbound, c.oid) as bound, greatest(c.reltuples, 0)::bigint as about_rows,
       pg_size_pretty(pg_relation_size(c.oid)) as size
from pg_inherits h
join pg_class c on c.oid = h.inhrelid
where h.inhparent = 'holdfast.archive'::regclass
order by c.relname desc
limit 20
