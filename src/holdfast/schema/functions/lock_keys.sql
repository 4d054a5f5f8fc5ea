-- Lock keys until this transaction ends, unless another worker has them locked: those of the candidates, at most most_keys,
-- and the vacated ones. A vacated key without passed rows matters only if it has blocked rows: all others are still ahead of
-- the scans.
-- Returns  the keys that it has locked.
-- Locks    the keys, skipping locked ones; never waits.
create or replace function holdfast.lock_keys(
    candidates holdfast.candidate[], vacated holdfast.vacated_key[], most_keys int
) returns holdfast.queue_key[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    keys holdfast.queue_key[];
begin
    with wanted as materialized (
        select v.queue, v.key
        from unnest(vacated) as v (queue, key, passed)
        left join lateral (
            select true as it
            from holdfast.inbox b
            where not v.passed and b.status = 'blocked' and b.queue = v.queue and b.partition_key = v.key
            limit 1
        ) blocked on true
        where v.passed or blocked.it
        union
        (
            select c.queue, c.key
            from unnest(candidates) with ordinality as c (id, lane, at, seq, queue, key, ordered, place)
            where c.ordered
            group by c.queue, c.key
            order by min(c.place)
            limit most_keys
        )
    )
    select array_agg(row(w.queue, w.key)::holdfast.queue_key)
    into keys
    from wanted w
    where pg_try_advisory_xact_lock(holdfast.key_lock(w.queue, w.key));
    return keys;
end
$$;
