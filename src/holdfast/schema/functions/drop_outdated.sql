-- Drop the partitions of days to come that were made before a task said for how long its jobs are kept: they have no leaf for
-- them, and make_partitions makes them again. Otherwise all that ends on these days would be kept for as long.
--
-- Completions wait until the transaction ends, about 10 ms for each day. If the lock cannot be acquired at once, the next run
-- retries.
create or replace function holdfast.drop_outdated(ahead int) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '100ms'
    as $$
declare
    today   date := (holdfast.clock() at time zone 'UTC')::date;
    names   text[];
    name    text;
    empty   boolean;
    dropped int := 0;
begin
    select array_agg(d.name)
    into names
    from generate_series(1, ahead) as n,
         lateral to_char((today + n)::timestamp, '"archive_"YYYYMMDD') as d (name)
    where exists (select from pg_inherits h
                  where h.inhrelid = to_regclass(format('holdfast.%I', d.name)) and h.inhparent = 'holdfast.archive'::regclass)
      and exists (select from holdfast.keeps_of(today + n) as k (days)
                  where to_regclass(format('holdfast.%I', format('%s_%sd', d.name, k.days))) is null);
    if names is null then
        return 0;
    end if;
    lock table only holdfast.archive in access exclusive mode;
    foreach name in array names loop
        execute format('select not exists (select from holdfast.%I)', name) into empty;
        if empty then
            execute format('drop table holdfast.%I', name);
            dropped := dropped + 1;
        end if;
    end loop;
    return dropped;
exception when lock_not_available or undefined_table then
    return 0;
end
$$;
