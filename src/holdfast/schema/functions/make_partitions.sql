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
