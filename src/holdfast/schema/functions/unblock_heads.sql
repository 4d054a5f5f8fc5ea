-- Make blocked heads pending again, if nothing of their key is in processing: those that were left by hand-written SQL, by
-- an operator, or by a worker that died between the end of a row and its look at the key.
-- Returns  how many. Keys that are locked are left: the worker that has the lock looks at the key itself.
create or replace function holdfast.unblock_heads(queues text[], keys text[]) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    k_queues  text[];
    k_keys    text[];
    unblocked int;
begin
    select array_agg(k.queue), array_agg(k.key) into k_queues, k_keys
    from (select distinct u.queue, u.key from unnest(queues, keys) as u (queue, key)) k
    where pg_try_advisory_xact_lock(holdfast.key_lock(k.queue, k.key));
    with head as materialized (
        select l.id
        from unnest(k_queues, k_keys) as k (queue, key)
        cross join lateral (
            select i.id
            from holdfast.inbox i
            where i.ordered and i.status in ('pending', 'blocked')
              and i.queue = k.queue
              and i.partition_key = k.key
              and not (i.skips and i.status::text = 'pending'
                       and i.available_at > greatest(holdfast.clock(), clock_timestamp()))
            order by i.seq
            limit 1
        ) h
        left join lateral (
            select true as it
            from holdfast.inbox p
            where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key
            limit 1
        ) processing on true
        join holdfast.inbox l on l.id = any (array[h.id])
        where l.status::text = 'blocked'
          and processing.it is null
        for update of l skip locked
    )
    update holdfast.inbox i
    set status = 'pending', available_at = greatest(i.available_at, clock_timestamp())
    from head
    where i.id = any (array[head.id]);
    get diagnostics unblocked = row_count;
    return unblocked;
end
$$;
