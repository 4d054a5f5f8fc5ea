-- End jobs that have expired: each moves to the archive as expired, and its idempotency key is kept for its horizon. The
-- only place that does this: for workers, which end rows that they have claimed and not started; for the chore, which ends
-- rows that wait; and for producers that meet such a row in the way of a unique job. An instance that waits for it is told. An
-- instance that has begun does not expire.
-- Takes    ids in ascending order; from a worker also the generations of its holds, and its name. Without a worker, only
--          expired rows are ended that wait, or that were claimed after their expiry: no worker starts those. With one, only
--          those under its holds: the claim has read the clock.
-- Returns  id, kind, queue, key, ordered, expires_at. An id that does not come back was not ended.
-- Locks    the rows, in the order given; waits for transactions that hold them. Those whose parents are locked are left (see
--          lock_parents).
-- Index    the primary key alone (see complete.sql).
create or replace function holdfast.expire_jobs(ids uuid[], generations bigint[] default '{}', worker text default null)
    returns table (id uuid, kind text, queue text, key text, ordered boolean, expires_at timestamptz)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
#variable_conflict use_column
declare
    free    boolean[] := holdfast.lock_parents(ids);
    gone    uuid[];
    kinds   text[];
    queues  text[];
    keys    text[];
    orders  boolean[];
    times   timestamptz[];
    reasons text[];
begin
    with expired as materialized (
        select i.id
        from unnest(ids, generations, free) as t (id, generation, free)
        join holdfast.inbox i on i.id = any (array[t.id])
        where t.free and case when worker is null
                   then i.expires_at <= holdfast.clock()
                        and (i.status::text in ('pending', 'blocked')
                             or i.status::text = 'processing' and i.claimed_at >= i.expires_at)
                        and not (i.lease_generation > 0 and i.status::text <> 'processing' and holdfast.is_workflow(i.kind))
                   else i.claimed_by = worker and i.lease_generation = t.generation and i.status::text = 'processing' end
        order by t.id
        for update of i
    ),
    ended as (
        delete from holdfast.inbox i
        using expired t
        where i.id = any (array[t.id])
        returning i.*
    ),
    archived as (
        insert into holdfast.archive
        select a.*
        from ended e
        cross join lateral jsonb_populate_record(           -- the columns that both tables have, and how it ended
            null::holdfast.archive,
            to_jsonb(e) || jsonb_build_object(
                'status', 'expired', 'finished_at', holdfast.clock(),
                -- A claim has counted an attempt that did not start.
                'attempts', case when e.status::text = 'processing' then greatest(e.attempts - 1, 0) else e.attempts end,
                'last_error', 'not started by ' || holdfast.stamp(e.expires_at)
                              || coalesce('; last error: ' || e.last_error, ''))) as a
    ),
    remembered as (
        update holdfast.dedupe d
        set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    )
    select array_agg(e.id), array_agg(e.kind), array_agg(e.queue), array_agg(e.partition_key), array_agg(e.ordered),
           array_agg(e.expires_at), array_agg('not started by ' || holdfast.stamp(e.expires_at))
    into gone, kinds, queues, keys, orders, times, reasons
    from ended e;
    if gone is not null then
        perform holdfast.tell_parents(gone, array_fill('expired'::text, array[cardinality(gone)]), null, reasons);
        perform holdfast.fold_ended(gone);
    end if;
    return query
    select e.id, e.kind, e.queue, e.key, e.ordered, e.at
    from unnest(gone, kinds, queues, keys, orders, times) as e (id, kind, queue, key, ordered, at);
end
$$;
