-- Set the candidates that wait behind the heads of their keys to "blocked", which takes them out of the claim's index.
-- Locks    the rows, skipping locked ones; never waits. The keys are locked by the caller.
-- Index    the primary key.
create or replace function holdfast.block(
    candidates holdfast.candidate[], keys holdfast.queue_key[], heads holdfast.head[]
) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    with behind as materialized (
        select i.id
        from unnest(candidates) as c
        join holdfast.inbox i on i.id = any (array[c.id])
        where c.ordered
          and (c.queue, c.key) in (select k.queue, k.key from unnest(keys) as k)
          and c.id not in (select h.id from unnest(heads) as h)
          and i.status::text = 'pending'
        for update of i skip locked
    )
    update holdfast.inbox i
    set status = 'blocked'
    from behind b
    where i.id = any (array[b.id]);
end
$$;
