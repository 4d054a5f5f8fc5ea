-- How many jobs ended within these times, in seconds, by queue and status; and how far back that is known.
--
-- The archive has no index on finished_at, which every completion would pay for. But nothing is ever deleted from a
-- partition, so its rows stand in the order in which the jobs ended, nearly, and this reads the last pages of the newest
-- partitions: "pages" at most, however large they are.
-- Returns  counts, several for the same queue and status; and one row without a queue, whose "reach" is the number of seconds
--          back that was read, or null if all of it was.
create or replace function holdfast.ended_lately(within float8[], pages int)
    returns table (queue text, status text, seconds float8, jobs bigint, reach float8)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    as $$
#variable_conflict use_column
declare
    today   constant date := (holdfast.clock() at time zone 'UTC')::date;
    longest constant float8 := (select max(w) from unnest(within) w);
    since   constant timestamptz := holdfast.clock() - make_interval(secs => longest);
    unread  bigint := pages;
    place   regclass;
    size    bigint;
    first   tid;
    oldest  timestamptz;
begin
    foreach place in array array[
        to_regclass(format('holdfast.%I', to_char(today::timestamp, '"archive_"YYYYMMDD'))),
        to_regclass(format('holdfast.%I', to_char((today - 1)::timestamp, '"archive_"YYYYMMDD'))),
        'holdfast.archive_default'::regclass]
    loop
        continue when place is null;
        size := pg_relation_size(place) / current_setting('block_size')::int;
        continue when size = 0;
        exit when unread <= 0;
        first := format('(%s,0)', greatest(size - unread, 0))::tid;
        return query execute format(
            'select e.queue, e.status::text, w.seconds, sum(e.jobs)::bigint, null::float8
             from (
                 select a.queue, a.status, date_trunc(''second'', a.finished_at) as second, count(*) as jobs
                 from %s a
                 where a.ctid >= $2 and a.finished_at > $3
                 group by 1, 2, 3
             ) e
             join unnest($1) as w (seconds) on e.second > holdfast.clock() - make_interval(secs => w.seconds)
             group by 1, 2, 3', place)
            using within, first, since;
        if size > unread then
            execute format('select min(a.finished_at) from %s a where a.ctid >= $1 and a.ctid < $2', place)
                into oldest using first, format('(%s,0)', size - unread + 8)::tid;
        end if;
        unread := unread - size;
    end loop;
    return query select null::text, null::text, null::float8, 0::bigint,
                        case when oldest > since then extract(epoch from holdfast.clock() - oldest)::float8 end;
end
$$;
