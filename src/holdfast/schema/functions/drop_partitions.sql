-- Drop the partitions whose newest row is older than "keep" days. Must not wait long: a waiting DROP holds up every
-- completion behind it, so the caller sets lock_timeout and retries later.
create or replace function holdfast.drop_partitions(keep int) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    name    text;
    dropped int := 0;
begin
    for name in
        select c.relname
        from pg_inherits h join pg_class c on c.oid = h.inhrelid
        where h.inhparent = 'holdfast.archive'::regclass
          and c.relname ~ '^archive_\d{8}$'
          and to_date(substr(c.relname, 9), 'YYYYMMDD') < (holdfast.clock() at time zone 'UTC')::date - keep
        order by c.relname
    loop
        execute format('drop table holdfast.%I', name);
        dropped := dropped + 1;
    end loop;
    return dropped;
end
$$;
