-- One partition per day (UTC), made ahead: standalone first, then attached, so that only a short lock on the empty
-- default partition is needed. A day that already has rows in the default partition, because no worker ran to make its
-- partition in time, gets one for the rest of the day; earlier rows stay in the default one until their retention ends.
create or replace function holdfast.make_partitions(ahead int) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    today date := (holdfast.clock() at time zone 'UTC')::date;
    made  int := 0;
begin
    insert into holdfast.keep_classes as c (days, since, seen_at)
    select k.keep_days, holdfast.clock(), holdfast.clock()
    from (select distinct k.keep_days from holdfast.kinds k where k.keep_days > 0) k
    order by k.keep_days
    on conflict (days) do update set seen_at = excluded.seen_at;

    perform holdfast.drop_outdated(ahead);
    for n in 0 .. ahead loop
        continue when to_regclass(format('holdfast.%I', to_char((today + n)::timestamp, '"archive_"YYYYMMDD'))) is not null;
        if holdfast.make_partition(today + n, (today + n)::timestamp at time zone 'UTC')
           or holdfast.make_partition(today + n, holdfast.free_from(today + n)) then
            made := made + 1;
        end if;
    end loop;
    return made;
end
$$;
