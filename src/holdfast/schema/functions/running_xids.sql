-- The xids of transactions of this database that are running or prepared; not the caller's. To be read after the snapshot
-- of the scan was taken: see model/floor.py.
--
-- Not an SQL body: it would name every column of the server's own function, and other versions have other columns.
create or replace function holdfast.running_xids() returns bigint[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return array(
        select a.backend_xid::text::bigint
        from pg_stat_get_activity(null) a
        where a.backend_xid is not null
          and a.datid = (select own.datid from pg_stat_get_activity(pg_backend_pid()) own)
          and a.pid <> pg_backend_pid()
    ) || array(
        select x.transaction::text::bigint
        from pg_prepared_xact() x
        where x.dbid = (select own.datid from pg_stat_get_activity(pg_backend_pid()) own)
    );
end
$$;
