-- What a guarded claim reports about itself to its worker, as JSON. See claim_guarded.
--
-- A row that was found and left as it was, because another worker has its key locked or there was no room, stops its lane:
-- the floor must not pass it. A scan that found as many rows as it wanted stops its last lane behind the last row, and has
-- not reached the lanes after it; nor has it reached the end of a lane of several buckets.
create or replace function holdfast.about_claim(
    lanes holdfast.lane[], candidates holdfast.candidate[], vacated holdfast.vacated_key[], keys holdfast.queue_key[],
    heads holdfast.head[], taken uuid[], look int, paused text[], owned text[], snapshot text, running bigint[],
    empty holdfast.queue_key[]
) returns json
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    met     constant int := coalesce(cardinality(candidates), 0);
    last    constant holdfast.candidate := candidates[met];
    full_   constant boolean := met > 0 and met >= look and last.lane > 0;
    halfway constant boolean := full_ and lanes[last.lane].owned;
    left_   int := 0;
    stops   json;
    passed  json;
    busy    int[];
begin
    if coalesce(cardinality(taken), 0) < met then
        with place as materialized (
            select c.lane, c.at, c.seq
            from unnest(candidates) as c
            where c.id not in (select t.id from unnest(taken) as t (id))
              and (not c.ordered
                   or c.id in (select h.id from unnest(heads) as h)
                   or (c.queue, c.key) not in (select k.queue, k.key from unnest(keys) as k))
        ),
        stop as (
            select distinct on (p.lane) p.lane, p.at, p.seq
            from (table place union all select last.lane, last.at, last.seq where full_ and not halfway) p
            order by p.lane, p.at, p.seq
        )
        select (select count(*) from place), json_agg(json_build_array(s.lane, holdfast.stamp(s.at), s.seq))
        into left_, stops
        from stop s;
        select json_agg(distinct_key.it) into passed
        from (
            select distinct row(c.queue, c.key)::holdfast.queue_key as it
            from unnest(candidates) as c
            where c.ordered
              and c.id not in (select h.id from unnest(heads) as h)
              and (c.queue, c.key) in (select k.queue, k.key from unnest(keys) as k)
        ) distinct_key;
    elsif full_ and not halfway then
        stops := json_build_array(json_build_array(last.lane, holdfast.stamp(last.at), last.seq));
    end if;
    if cardinality(vacated) > 0 then
        busy := array(
            select v.n::int
            from unnest(vacated) with ordinality as v (queue, key, passed, n)
            where v.passed and (v.queue, v.key) not in (select k.queue, k.key from unnest(keys) as k));
    end if;
    return json_strip_nulls(json_build_object(
        'at', holdfast.stamp(holdfast.clock()), 'paused', paused, 'owned', owned, 'snapshot', snapshot, 'running', running,
        'found', met, 'left', left_, 'reached', case when halfway then last.lane - 1 when full_ then last.lane end, 'stops', stops,
        'busy', busy, 'passed', passed, 'empty', to_json(empty)));
end
$$;
