-- From when on nothing of a day is in the default partition, with a minute in which its own can be made.
create or replace function holdfast.free_from(day date) returns timestamptz
    language sql volatile
    set search_path = pg_catalog, pg_temp
    as $$
        select date_trunc('minute', greatest(max(d.finished_at), holdfast.clock(), day::timestamp at time zone 'UTC'), 'UTC')
               + interval '2 minutes'
        from holdfast.archive_default d
        where d.finished_at < (day + 1)::timestamp at time zone 'UTC'
    $$;
