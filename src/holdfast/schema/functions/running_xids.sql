-- The transactions of this database that have drawn an xid and run, or are prepared; not the caller's. To be asked after
-- the snapshot was taken by which rows were looked for: see model/floor.py.
--
-- Not an SQL body: that names every column of the server's own function, of which another version has others.
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
