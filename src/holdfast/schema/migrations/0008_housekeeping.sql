-- Housekeeping that keeps up: once() markers that nobody finished are found by their age, and the archive's partitions
-- have the right bounds whatever the session's settings.

-- Markers that were entered and not finished: few, and those past their horizon are forgotten. Not "done_at is null": the
-- planner would take this index, while it is empty, for statements that name one key.
create index idx_once_entered on holdfast.once (entered_at) where coalesce(done_at, 'infinity') = 'infinity';

-- One partition per day (UTC), made ahead: standalone first, then attached, so that only a short lock on the empty
-- default partition is needed. A day that already has rows in the default partition, because nobody was there to make its
-- partition in time, gets one for the rest of the day; what came before stays in the default one until it is old.
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

-- Make the partition of a day, or of its rest; false when rows of that time are in the default one, another session made it
-- first, or somebody's own partition covers some of it.
create function holdfast.make_partition(day date, begins timestamptz) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    name text := to_char(day::timestamp, '"archive_"YYYYMMDD');
begin
    if begins at time zone 'UTC' >= day + 1 then
        return false;
    end if;
    execute format('create table holdfast.%I (like holdfast.archive including defaults)', name);
    -- Written here and with their zone: as text a time depends on the session's settings, and may be read as another.
    execute format('alter table holdfast.archive attach partition holdfast.%I for values from (%L) to (%L)', name,
                   to_char(begins at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"+00"'),
                   to_char((day + 1)::timestamp, 'YYYY-MM-DD "00:00:00+00"'));
    return true;
exception when check_violation or duplicate_table or unique_violation or invalid_object_definition then
    return false;
end
$$;

-- From when on nothing of a day is in the default partition, with a minute in which its own can be made.
create function holdfast.free_from(day date) returns timestamptz
    language sql volatile
    set search_path = pg_catalog, pg_temp
    as $$
        select date_trunc('minute', greatest(max(d.finished_at), holdfast.clock(), day::timestamp at time zone 'UTC'), 'UTC')
               + interval '2 minutes'
        from holdfast.archive_default d
        where d.finished_at < (day + 1)::timestamp at time zone 'UTC'
    $$;
