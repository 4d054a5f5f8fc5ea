-- How old the oldest transaction id is that is not frozen.
-- Takes    $1 schema.
-- Returns  the oldest table of the installation, its age; the age of the database; the age at which vacuum begins to hurry.
select t.name, coalesce(t.age, 0) as age, (select age(d.datfrozenxid) from pg_database d where d.datname = current_database()) as database,
       greatest(current_setting('vacuum_failsafe_age')::bigint, 1) as most
from (select) one
left join (
    select c.relname::text as name, age(c.relfrozenxid) as age
    from pg_class c
    where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = $1::text) and c.relkind = 'r'
    order by 2 desc
    limit 1
) t on true
