-- What keeps vacuum from removing dead rows?
-- End the session, drop the slot, or roll back the prepared transaction.
select 'session' as what, pid::text as name, age(backend_xmin) as xids_back, now() - xact_start as open_for, state, left(query, 60) as query
from pg_stat_activity
where backend_xmin is not null and pid <> pg_backend_pid()
union all
select 'replication slot', slot_name, greatest(age(xmin), age(catalog_xmin)), null, case when active then 'active' else 'inactive' end, null
from pg_replication_slots
where xmin is not null or catalog_xmin is not null
union all
select 'prepared transaction', gid, age(transaction), now() - prepared, null, null
from pg_prepared_xacts
order by xids_back desc
