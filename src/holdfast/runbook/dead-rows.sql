-- Dead rows of each table, and when it was vacuumed
-- Look for what holds back vacuum first: holdfast runbook vacuum-held-back. Then: vacuum holdfast.TABLE.
select relname as table_name, n_live_tup as live, n_dead_tup as dead, greatest(last_vacuum, last_autovacuum) as vacuumed,
       pg_size_pretty(pg_total_relation_size(relid)) as size
from pg_stat_all_tables
where schemaname = (parse_ident('holdfast.inbox'))[1]
order by n_dead_tup desc
limit 10
