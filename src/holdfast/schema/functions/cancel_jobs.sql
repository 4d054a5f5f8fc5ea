-- Cancel jobs: those that wait end at once, the handlers of those that run are notified. Dead letters are left alone.
--
-- An instance that has begun does not end here: its steps must be undone first. It is marked, and made due if it waits or is a
-- dead letter; and the jobs that it waits for are cancelled, too. One that was never claimed ends at once. Headers keep during
-- which claim it was cancelled, for to_undo, and why, for its end.
-- Takes    ids, in any order; why, for last_error.
-- Returns  id and status: cancelled (it ended), processing (its handler is notified; an instance will be undone), dead_letter
--          (nothing was done). An id that does not come back has no live job.
-- Locks    the rows, in order of id; before them, the rows in "instances" of their parents, and of instances. Waits for
--          transactions that hold them.
-- Index    the primary key alone (see complete.sql).
create or replace function holdfast.cancel_jobs(ids uuid[], reason text) returns table (id uuid, status text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
#variable_conflict use_column
declare
    one        record;
    targets    uuid[];
    statuses   text[];
    gone       uuid[];
    children   uuid[];                 -- of the ended ones: those that an instance waits for
    flows      uuid[];                 -- instances that will be undone
    queues     text[];
    unfinished uuid[];
begin
    for one in
        select distinct n.id, n.parent
        from unnest(ids) as t (id)
        join holdfast.inbox i on i.id = any (array[t.id])
        cross join lateral (
            select p.id, true as parent from holdfast.inbox p where p.id = holdfast.parent_of(i.headers)
            union all
            select s.job_id, false from holdfast.instances s where s.job_id = i.id and holdfast.is_workflow(i.kind)
        ) n
        order by n.id, n.parent
    loop
        perform holdfast.lock_instance(one.id);
        if not one.parent then         -- a paused one could not be undone
            update holdfast.instances s set mail = s.mail + 1, paused_at = null where s.job_id = one.id;
        end if;
    end loop;

    with target as materialized (
        select i.id, i.headers,
               case when i.status::text = 'failed' and i.cancel_requested_at is not null then 'cancelled'
                    else i.status::text end as status,
               i.lease_generation > 0 and holdfast.is_workflow(i.kind) as begun
        from (select distinct u.id from unnest(ids) as u (id)) t
        join holdfast.inbox i on i.id = any (array[t.id])
        order by t.id
        for update of i
    ),
    ended as (
        delete from holdfast.inbox i
        using target t
        where i.id = any (array[t.id]) and t.status in ('pending', 'blocked') and not t.begun
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
        set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    ),
    told as (
        update holdfast.inbox i
        set cancel_requested_at = coalesce(i.cancel_requested_at, holdfast.clock()),
            status = case when t.status = 'dead_letter' then 'pending' else i.status end,
            available_at = case when t.status in ('pending', 'dead_letter') then clock_timestamp() else i.available_at end,
            attempts = case when t.status = 'dead_letter' then 0 else i.attempts end,
            crashes = case when t.status = 'dead_letter' then 0 else i.crashes end,
            dead_at = case when t.status = 'dead_letter' then null else i.dead_at end,
            headers = case when t.begun and i.cancel_requested_at is null
                           then coalesce(i.headers, '{}')
                                || jsonb_build_object('holdfast.cancelled', i.lease_generation::text,
                                                      'holdfast.cancel_reason', cancel_jobs.reason)
                           else i.headers end
        from target t
        where i.id = any (array[t.id])
          and (t.status = 'processing' or t.begun and t.status in ('pending', 'blocked', 'dead_letter'))
        returning i.queue, i.status
    )
    select array_agg(t.id),
           array_agg(case when t.begun and t.status in ('pending', 'blocked', 'dead_letter') then 'processing'
                          when t.status in ('pending', 'blocked') then 'cancelled' else t.status end),
           array_agg(t.id) filter (where t.status in ('pending', 'blocked') and not t.begun),
           array_agg(t.id) filter (where t.status in ('pending', 'blocked') and not t.begun
                                         and holdfast.parent_of(t.headers) is not null),
           array_agg(t.id) filter (where t.begun),
           (select array_agg(n.queue) from told n where n.status::text = 'pending')
    into targets, statuses, gone, children, flows, queues
    from target t
    where t.status in ('pending', 'blocked', 'processing', 'dead_letter', 'cancelled');

    if flows is not null then
        perform holdfast.wake(q.queue, null, null, count(*)::int) from unnest(queues) as q (queue) group by q.queue;
        -- After the mark, which their workers respect: no child is started any more.
        select array_agg(s.child_id) into unfinished
        from unnest(flows) as f (id)
        join holdfast.steps s on s.job_id = any (array[f.id])
        where s.kind = 'child' and s.status = 'open' and s.child_id is not null;
        if unfinished is not null then
            perform from holdfast.cancel_jobs(unfinished, 'the workflow that waits for it was cancelled');
        end if;
    end if;
    if children is not null then
        perform holdfast.tell_parents(children, array_fill('cancelled'::text, array[cardinality(children)]), null,
                                      array_fill(reason, array[cardinality(children)]));
    end if;
    if gone is not null then
        perform holdfast.fold_ended(gone);
    end if;
    return query select r.id, r.status from unnest(targets, statuses) as r (id, status);
end
$$;
