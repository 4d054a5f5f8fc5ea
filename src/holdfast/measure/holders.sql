-- What holds the xmin horizon of this database: old snapshots and transactions, prepared ones, replication slots, standbys.
-- Takes    $1 seconds from which a session counts as old.
-- Returns  kind, name, seconds, what; the oldest first. Of other roles' sessions an ordinary role sees little.
select h.kind, h.name, h.seconds, h.what
from (
    select case when a.backend_type = 'walsender' then 'standby' else 'session' end as kind, a.pid::text as name,
           extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds,
           pg_catalog.concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state) as what
    from pg_stat_activity a
    where (a.backend_xmin is not null or a.backend_xid is not null)
      and (a.datname = current_database() or a.backend_type = 'walsender')
      and a.backend_type <> 'autovacuum worker'
      and a.pid <> pg_backend_pid()
      and (a.backend_type = 'walsender' or a.xact_start < clock_timestamp() - make_interval(secs => $1::float8))
    union all
    select 'prepared transaction', p.gid, extract(epoch from clock_timestamp() - p.prepared)::float8, p.owner::text
    from pg_prepared_xacts p
    where p.database = current_database()
    union all
    select 'replication slot', s.slot_name::text, null, case when s.active then 'in use' else 'not in use' end
    from pg_replication_slots s
    where s.xmin is not null
) h
order by h.seconds desc nulls last
