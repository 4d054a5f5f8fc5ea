-- One partition of the events per day (UTC), made ahead, as make_partitions does for the archive. A day that already has
-- events in the default partition, because no worker ran to make its partition in time, gets one for the rest of the day. So does
-- today in any case: an event that is being written goes to the default partition, and its transaction would fail if a partition
-- for its time came in between.
create or replace function holdfast.make_event_partitions(ahead int) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    today  date := (holdfast.clock() at time zone 'UTC')::date;
    day    date;
    begins timestamptz;
    name   text;
    made   int := 0;
begin
    for n in 0 .. ahead loop
        day := today + n;
        name := to_char(day::timestamp, '"events_"YYYYMMDD');
        continue when to_regclass(format('holdfast.%I', name)) is not null;
        begins := day::timestamp at time zone 'UTC';
        if n = 0 or exists (select from holdfast.events_default d
                   where d.published_at >= begins and d.published_at < begins + interval '1 day') then
            select date_trunc('minute', greatest(max(d.published_at), holdfast.clock()), 'UTC') + interval '2 minutes'
            into begins
            from holdfast.events_default d
            where d.published_at < (day + 1)::timestamp at time zone 'UTC';
        end if;
        continue when begins at time zone 'UTC' >= day + 1;
        begin
            execute format('create table holdfast.%I (like holdfast.events including defaults including constraints)', name);
            execute format('alter table holdfast.events attach partition holdfast.%I for values from (%L) to (%L)', name,
                           to_char(begins at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"+00"'),
                           to_char((day + 1)::timestamp, 'YYYY-MM-DD "00:00:00+00"'));
            made := made + 1;
        exception when check_violation or duplicate_table or unique_violation or invalid_object_definition then
            null;                        -- another session was faster, or events have come meanwhile: the next run
        end;
    end loop;
    return made;
end
$$;
