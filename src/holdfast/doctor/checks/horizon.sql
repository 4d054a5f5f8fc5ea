-- What holds the xmin horizon of this database: sessions, prepared transactions, replication slots, standbys.
-- Returns  kind, name, seconds that it has been open (null: a slot has no beginning), how many transactions back it holds, what it is;
--          the furthest back first. Of other roles' sessions an ordinary role sees nothing. A consumer of logical replication
--          that copies tables is a session: it has a database, which a standby has not.
select h.kind, h.name, h.seconds, h.xids, h.what
from (
    select case when a.datname is null then 'standby' else 'session' end as kind, a.pid::text as name,
           extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds,
           greatest(age(a.backend_xmin), age(a.backend_xid)) as xids,
           concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state) as what
    from pg_stat_activity a
    where (a.backend_xmin is not null or a.backend_xid is not null)
      and (a.datname = current_database() or a.datname is null and a.backend_type = 'walsender')
      and a.backend_type not in ('autovacuum worker', 'parallel worker')
      and a.pid <> pg_backend_pid()
    union all
    select 'prepared transaction', p.gid, extract(epoch from clock_timestamp() - p.prepared)::float8, age(p.transaction), p.owner::text
    from pg_prepared_xacts p
    where p.database = current_database()
    union all
    select 'replication slot', s.slot_name::text, null, greatest(age(s.xmin), age(s.catalog_xmin)),
           case when s.active then 'in use' else 'not in use' end
    from pg_replication_slots s
    where s.xmin is not null or s.catalog_xmin is not null
) h
order by h.xids desc nulls last, h.seconds desc nulls last
limit 20
