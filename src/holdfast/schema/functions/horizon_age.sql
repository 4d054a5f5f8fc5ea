-- The age of the xmin horizon of this database, in transactions: how far back the oldest snapshot, prepared transaction or
-- replication slot goes, so that vacuum can remove nothing younger. Of other roles' sessions a role without pg_read_all_stats
-- sees nothing: then it is at least this.
create or replace function holdfast.horizon_age() returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return greatest(0, (
        select max(age(a.backend_xmin))
        from pg_stat_activity a
        where a.pid <> pg_backend_pid()
          and (a.datname = current_database() or a.backend_type = 'walsender')
          and a.backend_type <> 'autovacuum worker'
    ), (
        select max(age(p.transaction)) from pg_prepared_xacts p where p.database = current_database()
    ), (
        select max(age(s.xmin)) from pg_replication_slots s
    ));
end
$$;
