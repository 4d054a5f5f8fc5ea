-- Deliveries that were confirmed within these seconds, by queue, and their lag in seconds: of half of them, of 99 %, and the
-- longest. The lag counts from the call that published or replayed the event until the confirmation is stored. When that
-- call's transaction commits is stored nowhere, so one that stays open makes the lag longer.
-- Reads the last pages of today's archive, as ended_lately does: "pages" at most, and one of each leaf.
create or replace function holdfast.delivered_lately(within float8, pages int)
    returns table (queue text, deliveries bigint, half float8, most float8, longest float8)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    as $$
#variable_conflict use_column
declare
    today constant text := to_char(holdfast.clock() at time zone 'UTC', '"archive_"YYYYMMDD');
    parts text;
begin
    select string_agg(format('select a.queue, extract(epoch from a.finished_at - a.created_at)::float8 as lag from %s a '
                             'where a.ctid >= %L and a.finished_at > $1 and a.kind = %L and a.status::text = %L',
                             t.relid, format('(%s,0)', greatest(p.pages - greatest(delivered_lately.pages, 1), 0)), '@deliver', 'completed'),
                      ' union all ')
    into parts
    from (select to_regclass(format('holdfast.%I', today)) as name union select 'holdfast.archive_default'::regclass) d
    cross join lateral pg_partition_tree(d.name) t
    cross join lateral (select pg_relation_size(t.relid) / current_setting('block_size')::int as pages) p
    where d.name is not null and t.isleaf;
    return query execute format(
        'select l.queue, count(*), percentile_cont(0.5) within group (order by l.lag), '
        'percentile_cont(0.99) within group (order by l.lag), max(l.lag) from (%s) l group by l.queue', parts)
        using holdfast.clock() - make_interval(secs => within);
end
$$;
