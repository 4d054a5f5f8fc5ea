-- Cancel jobs: those that wait end at once, the handlers of those that run are notified. Dead letters are left alone.
-- Takes    ids, in any order; why, for last_error.
-- Returns  id and status: cancelled (it ended), processing (its handler is notified), dead_letter (nothing was done). An id
--          that does not come back has no live job.
-- Locks    the rows, in order of id; waits for transactions that hold them.
-- Index    the primary key alone (see complete.sql).
create or replace function holdfast.cancel_jobs(ids uuid[], reason text) returns table (id uuid, status text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
#variable_conflict use_column
begin
    return query
    with target as materialized (
        select i.id, case when i.status::text = 'failed' and i.cancel_requested_at is not null then 'cancelled'
                          else i.status::text end as status
        from (select distinct u.id from unnest(ids) as u (id)) t
        join holdfast.inbox i on i.id = any (array[t.id])
        order by t.id
        for update of i
    ),
    ended as (
        delete from holdfast.inbox i
        using target t
        where i.id = any (array[t.id]) and t.status in ('pending', 'blocked')
        returning i.*
    ),
    archived as (
        insert into holdfast.archive
        select a.*
        from ended e
        cross join lateral jsonb_populate_record(           -- the columns that both tables have, and how it ended
            null::holdfast.archive,
            to_jsonb(e) || jsonb_build_object('status', 'cancelled', 'cancel_requested_at', holdfast.clock(),
                                              'last_error', cancel_jobs.reason, 'finished_at', holdfast.clock())) as a
    ),
    remembered as (
        update holdfast.dedupe d
        set expires_at = holdfast.clock() + make_interval(secs => holdfast.setting('dedupe_horizon')::float8)
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    ),
    told as (
        update holdfast.inbox i
        set cancel_requested_at = coalesce(i.cancel_requested_at, holdfast.clock())
        from target t
        where i.id = any (array[t.id]) and t.status = 'processing'
    )
    select t.id, case when t.status in ('pending', 'blocked') then 'cancelled' else t.status end
    from target t
    where t.status in ('pending', 'blocked', 'processing', 'dead_letter', 'cancelled');
end
$$;
