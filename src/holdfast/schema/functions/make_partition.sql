-- Make the partition of a day, or of its rest; false if rows of that time are in the default one, another session made it
-- first, or a partition that was made by hand covers some of it.
--
-- If tasks say for how long their completed jobs are kept, the day is divided: a leaf for each number of days, such as
-- archive_20260131_7d, and archive_20260131_rest for all others. If no task does, it is one table.
create or replace function holdfast.make_partition(day date, begins timestamptz) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    name    text := to_char(day::timestamp, '"archive_"YYYYMMDD');
    keeps   int[] := array(select holdfast.keeps_of(day));
    divided boolean := cardinality(keeps) > 0;
    days    int;
begin
    if begins at time zone 'UTC' >= day + 1 then
        return false;
    end if;
    execute format('create table holdfast.%I (like holdfast.archive including defaults) %s', name,
                   case when divided then 'partition by list (keep_days)' end);
    if divided then
        foreach days in array keeps loop
            execute format('create table holdfast.%I partition of holdfast.%I for values in (%s)',
                           format('%s_%sd', name, days), name, days);
        end loop;
        execute format('create table holdfast.%I partition of holdfast.%I default', name || '_rest', name);
    end if;
    -- Formatted here, with the time zone: as text, a time depends on the session's settings, and may be misread.
    execute format('alter table holdfast.archive attach partition holdfast.%I for values from (%L) to (%L)', name,
                   to_char(begins at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"+00"'),
                   to_char((day + 1)::timestamp, 'YYYY-MM-DD "00:00:00+00"'));
    return true;
exception when check_violation or duplicate_table or unique_violation or invalid_object_definition then
    return false;
end
$$;
