-- Make heads that this worker does not take, and that no scan would find, claimable by everyone: pending, due now.
-- Locks    the rows, skipping locked ones; never waits. Their keys are locked by the caller.
-- Index    the primary key.
create or replace function holdfast.unblock(heads holdfast.head[], taken uuid[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    with free as materialized (
        select i.id
        from unnest(heads) as h
        join holdfast.inbox i on i.id = any (array[h.id])
        where h.reach in ('next', 'not ours')
          and h.id not in (select t.id from unnest(taken) as t (id))
          and i.status::text in ('pending', 'blocked')
        for update of i skip locked
    )
    update holdfast.inbox i
    set status = 'pending', available_at = greatest(i.available_at, clock_timestamp())
    from free f
    where i.id = any (array[f.id]);
end
$$;
