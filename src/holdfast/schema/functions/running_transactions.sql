-- The xids of transactions of this database that are running or prepared; not the caller's. To be read after the snapshot
-- of the scan was taken: see model/floor.py.
--
-- A single query, stable and without settings, so that the planner inlines it: every poll of an idle worker asks. Not an
-- SQL body: it would name every column of the server's own function, and other versions have other columns.
drop function if exists holdfast.running_xids();          -- as it was up to version 25
create or replace function holdfast.running_transactions() returns setof bigint
    language sql stable
    as $$
    select a.backend_xid::text::bigint
    from pg_catalog.pg_stat_get_activity(null) a
    where a.backend_xid is not null
      and a.datid = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
      and a.pid <> pg_catalog.pg_backend_pid()
    union all
    select x.transaction::text::bigint
    from pg_catalog.pg_prepared_xact() x
    where x.dbid = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
$$;
