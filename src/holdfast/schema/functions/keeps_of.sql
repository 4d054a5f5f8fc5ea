-- For how many days jobs that end on this day (UTC) may have to be kept, beside archive_days: what tasks have declared. Workers of
-- an earlier release of the code may still run, so a number counts for 30 days after the last kind has changed.
create or replace function holdfast.keeps_of(day date) returns setof int
    language sql stable
    set search_path = pg_catalog, pg_temp
    as $$
        select c.days
        from holdfast.keep_classes c
        where c.since < (keeps_of.day + 1)::timestamp at time zone 'UTC'
          and c.seen_at + interval '30 days' >= keeps_of.day::timestamp at time zone 'UTC'
        order by c.days
    $$;
