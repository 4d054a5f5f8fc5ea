-- The time from which on a day has no rows in the default partition, plus a minute to make its own partition.
create or replace function holdfast.free_from(day date) returns timestamptz
    language sql volatile
    set search_path = pg_catalog, pg_temp
    as $$
        select date_trunc('minute', greatest(max(d.finished_at), holdfast.clock(), day::timestamp at time zone 'UTC'), 'UTC')
               + interval '2 minutes'
        from holdfast.archive_default d
        where d.finished_at < (day + 1)::timestamp at time zone 'UTC'
    $$;
