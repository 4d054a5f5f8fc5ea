-- Drop the partitions of events that need not be kept any longer, except those of which a delivery still waits, is held or is
-- a dead letter. As in drop_partitions, the caller sets lock_timeout and retries later. Events in the default partition go in
-- batches of 1000.
create or replace function holdfast.drop_event_partitions(keep int) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    until   date := (holdfast.clock() at time zone 'UTC')::date - greatest(keep, 1);
    needed  text[];
    name    text;
    gone    int;
    dropped int := 0;
begin
    if not exists (select from holdfast.events_default d where d.published_at < until::timestamp at time zone 'UTC')
       and not exists (select from pg_inherits h join pg_class c on c.oid = h.inhrelid
                       where h.inhparent = 'holdfast.events'::regclass
                         and c.relname::text ~ '^events_\d{8}$' and c.relname::text < to_char(until::timestamp, '"events_"YYYYMMDD')) then
        return 0;
    end if;
    needed := array(select distinct to_char((i.payload ->> 'on')::date, 'YYYYMMDD')
                    from holdfast.inbox i
                    where i.kind = '@deliver' and i.payload ->> 'on' ~ '^\d{4}-\d{2}-\d{2}$');
    for name in
        select c.relname::text
        from pg_inherits h join pg_class c on c.oid = h.inhrelid
        where h.inhparent = 'holdfast.events'::regclass
          and c.relname::text ~ '^events_\d{8}$' and c.relname::text < to_char(until::timestamp, '"events_"YYYYMMDD')
          and substr(c.relname::text, 8) <> all (needed)
        order by c.relname
        limit 200
    loop
        execute format('drop table holdfast.%I', name);
        dropped := dropped + 1;
    end loop;
    delete from holdfast.events_default d
    where d.ctid = any (array(select o.ctid from holdfast.events_default o
                              where o.published_at < until::timestamp at time zone 'UTC'
                                and to_char(o.published_at at time zone 'UTC', 'YYYYMMDD') <> all (needed)
                              limit 1000));
    get diagnostics gone = row_count;
    return dropped + gone;
end
$$;
