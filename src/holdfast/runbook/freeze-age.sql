-- How old is the oldest transaction id of each table?
-- End what holds back vacuum, then run: vacuum (freeze) TABLE, the oldest first.
select c.oid::regclass::text as table_name, age(c.relfrozenxid) as xids,
       round(100.0 * age(c.relfrozenxid) / greatest(current_setting('vacuum_failsafe_age')::bigint, 1), 1)::float8 as percent,
       greatest(s.last_vacuum, s.last_autovacuum) as vacuumed
from pg_class c
join pg_stat_all_tables s on s.relid = c.oid
where c.relkind = 'r'
order by 2 desc
limit 10
