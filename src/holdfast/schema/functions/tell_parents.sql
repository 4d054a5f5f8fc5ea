-- Tell instances that their children have ended: the child's result or error becomes that of the step that waits for it,
-- and an instance for which enough of its children have ended is woken.
--
-- The caller has locked the parents (lock_parents), and ended the children in the same transaction.
-- Takes    the children's ids; how each ended (null: completed); their results as JSON text, and their errors.
-- Returns  how many instances were woken.
-- Index    idx_steps_child, and primary keys.
create or replace function holdfast.tell_parents(children uuid[], statuses text[], results text[], reasons text[]) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the table is empty
    as $$
declare
    parents uuid[];
    queues  text[];
begin
    with waiting_for as materialized (
        select c.status, c.result, c.reason, s.job_id, s.name, s.n
        from unnest(children, statuses, results, reasons) as c (id, status, result, reason)
        cross join lateral (
            select s.job_id, s.name, s.n
            from holdfast.steps s
            where s.child_id = c.id and s.kind = 'child' and s.status = 'open'
            limit 1
        ) s
    ),
    heard as (
        update holdfast.steps s
        set status = case when c.status is null then 'done' else 'failed' end,
            result = case when c.status is null then c.result::json end,
            errors = case when c.status is not null then jsonb_build_array(jsonb_build_object(
                         'error', c.status, 'message', coalesce(c.reason, ''), 'at', holdfast.clock())) end,
            ended_at = holdfast.clock()
        from waiting_for c
        where s.job_id = any (array[c.job_id]) and s.name = any (array[c.name]) and s.n = any (array[c.n])
          and s.status = 'open'
        returning s.job_id
    ),
    counted as materialized (
        select h.job_id, count(*)::int as ended from heard h group by h.job_id
    ),
    noted as (
        update holdfast.instances s
        set mail = s.mail + c.ended, left_to_wait = s.left_to_wait - c.ended
        from counted c
        where s.job_id = any (array[c.job_id])
        returning s.job_id, s.left_to_wait, s.paused_at
    )
    select array_agg(n.job_id) into parents
    from noted n
    where n.left_to_wait <= 0 and n.paused_at is null;
    if parents is null then
        return 0;
    end if;

    with woken as (
        update holdfast.inbox i
        set available_at = clock_timestamp()
        from unnest(parents) as p (id)
        join holdfast.instances s on s.job_id = any (array[p.id])
        where i.id = any (array[p.id])
          and i.status::text = 'pending'
          and i.lease_generation = s.parked_generation
          and i.available_at > clock_timestamp()
        returning i.queue
    )
    select array_agg(w.queue) into queues from woken w;
    perform holdfast.wake(q.queue, null, null, count(*)::int) from unnest(queues) as q (queue) group by q.queue;
    return coalesce(cardinality(queues), 0);
end
$$;
