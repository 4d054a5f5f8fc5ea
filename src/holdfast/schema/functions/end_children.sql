-- End jobs that instances wait for: each moves to the archive, and its parent is told. Tasks and workflows.
-- Takes    the worker; the holds, in ascending order of ids; results (JSON text), how they ended (null: completed), reasons, keep
--          (as complete.sql); of workflows, steps that are not written yet (as end.sql), and may steps be stored?
-- Returns  id, what became of it, and whether its lease had expired: ended; or busy (a transaction holds its parent's rows: to
--          be written later, nothing was). An id that does not come back was lost; or it is a workflow that would complete
--          and was cancelled meanwhile: it does not end, it must be undone.
-- Locks    the parents' rows, skipping locked ones (see lock_parents); then the rows, in order of id.
-- Index    primary keys, idx_steps_child.
create or replace function holdfast.end_children(
    worker text, ids uuid[], generations bigint[], results text[], statuses text[], reasons text[], keeps int[], given text[],
    stored boolean[]
) returns table (id uuid, outcome text, late boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    free       boolean[] := holdfast.lock_parents(ids);
    e_ids      uuid[];
    e_statuses text[];
    e_results  text[];
    e_reasons  text[];
    e_late     boolean[];
    e_flows    uuid[];
begin
    with ended as (
        delete from holdfast.inbox i
        using unnest(ids, generations, free, results, statuses, reasons, keeps, given, stored)
              as c (id, generation, free, result, ended_as, reason, keep, given, stored)
        where c.free
          and i.id = any (array[c.id])
          and i.claimed_by = worker
          and i.lease_generation = c.generation
          and i.status::text = 'processing'
          and (c.ended_as is not null or i.cancel_requested_at is null or c.given is null and not c.stored)
        returning i.*, c.result, c.ended_as, c.reason, c.keep, c.given, c.stored
    ),
    archived as (
        insert into holdfast.archive (
            id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, headers, attempts,
            max_attempts, claimed_by, claimed_at, lease_generation, fence, available_at, errors, idempotency_key, created_at,
            status, cancel_requested_at, last_error, result, finished_at, keep_days, steps)
        select e.id, e.seq, e.partition_key, e.partition_bucket, e.queue, e.priority, e.kind, e.payload, e.payload_version,
               e.headers, e.attempts, e.max_attempts, e.claimed_by, e.claimed_at, e.lease_generation, e.fence, e.available_at,
               e.errors, e.idempotency_key, e.created_at, coalesce(e.ended_as, 'completed')::holdfast.inbox_status,
               e.cancel_requested_at,
               coalesce(case when e.ended_as = 'cancelled' then e.headers ->> 'holdfast.cancel_reason' end, e.reason, e.last_error),
               e.result::jsonb, holdfast.clock(), e.keep,
               case when e.given is not null or e.stored then holdfast.folded(e.id, coalesce(e.given, '')) end
        from ended e
        where coalesce(e.keep, 1) > 0
    ),
    remembered as (
        update holdfast.dedupe d
        set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    )
    select array_agg(e.id), array_agg(e.ended_as), array_agg(e.result), array_agg(e.reason),
           array_agg(coalesce(e.lease_expires_at < holdfast.clock(), false)),
           array_agg(e.id) filter (where e.given is not null or e.stored)
    into e_ids, e_statuses, e_results, e_reasons, e_late, e_flows
    from ended e;

    if e_flows is not null then
        perform holdfast.remove_rows(e_flows);
    end if;
    if e_ids is not null then
        perform holdfast.tell_parents(e_ids, e_statuses, e_results, e_reasons);
    end if;
    return query
    select e.id, 'ended'::text, e.late from unnest(e_ids, e_late) as e (id, late)
    union all
    select b.id, 'busy'::text, false from unnest(ids, free) as b (id, free) where not b.free;
end
$$;
