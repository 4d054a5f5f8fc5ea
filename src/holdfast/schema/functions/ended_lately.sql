-- How many jobs ended within these times, in seconds, by queue and status; and how far back that is known.
--
-- The archive has no index on finished_at, which every completion would pay for. But nothing is ever deleted from a
-- partition, so its rows stand in the order in which the jobs ended, nearly, and this reads the last pages of the newest
-- partitions: "pages" at most (and one of each leaf), however large they are.
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
    day     regclass;
    total   bigint;
    place   regclass;
    size    bigint;
    share   bigint;
    first   tid;
    oldest  timestamptz;
begin
    foreach day in array array[
        to_regclass(format('holdfast.%I', to_char(today::timestamp, '"archive_"YYYYMMDD'))),
        to_regclass(format('holdfast.%I', to_char((today - 1)::timestamp, '"archive_"YYYYMMDD'))),
        'holdfast.archive_default'::regclass]
    loop
        -- A day is one table, or has leaves, whose rows stand in order too: each is read as far back as its size allows.
        total := (select sum(pg_relation_size(t.relid) / current_setting('block_size')::int)
                  from pg_partition_tree(day) t where t.isleaf);
        continue when coalesce(total, 0) = 0;
        exit when unread <= 0;
        for place, size in
            select t.relid, pg_relation_size(t.relid) / current_setting('block_size')::int
            from pg_partition_tree(day) t where t.isleaf
        loop
            continue when size = 0;
            share := case when total <= unread then size else least(greatest(unread * size / total, 1), size) end;
            first := format('(%s,0)', size - share)::tid;
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
            if share < size then
                execute format('select greatest($3, min(a.finished_at)) from %s a where a.ctid >= $1 and a.ctid < $2', place)
                    into oldest using first, format('(%s,0)', size - share + 8)::tid, oldest;
            end if;
        end loop;
        unread := unread - total;
    end loop;
    return query select null::text, null::text, null::float8, 0::bigint,
                        case when oldest > since then extract(epoch from holdfast.clock() - oldest)::float8 end;
end
$$;
