-- Live and dead rows of the tables of the installation, by the server's statistics.
-- Takes    $1 schema.
-- Returns  the tables with the most dead rows first; when each was vacuumed last.
select c.relname::text as name, s.n_live_tup as live, s.n_dead_tup as dead, greatest(s.last_vacuum, s.last_autovacuum) as vacuumed
from pg_stat_all_tables s
join pg_class c on c.oid = s.relid
where s.schemaname = $1::text and c.relkind = 'r'
order by s.n_dead_tup desc
limit 20
