-- End failed attempts: their jobs become pending again, for later; a dead letter, if no attempt is left or none is wanted;
-- or failed, if the job was cancelled while it ran (the chore archive moves it, as cancelled). An instance that was cancelled
-- must be undone. If it was during this attempt, it runs again at once, whatever the attempt came to; the next one knows of
-- the cancel, and is retried like any other.
--
-- The only place that decides between the three, for attempts that workers report and for leases that expired.
-- Takes    per attempt: the hold (worker, id, generation), in ascending order of ids; its error, as last_error and as the
--          JSON record that is kept; seconds until the next attempt (null: retry_delay decides); give up now?; did it kill its
--          process (null: unknown, see below)?
-- Returns  id, status, and the hold's worker and generation. An attempt that does not come back was lost.
-- Locks    the rows, in the order given.
-- Index    the primary key alone (see complete.sql).
create or replace function holdfast.fail_attempts(
    workers text[], ids uuid[], generations bigint[], last_errors text[], records jsonb[], delays float8[], give_up boolean[],
    crashed boolean[]
) returns table (id uuid, status text, worker text, generation bigint)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
begin
    return query
    with failed as (
    update holdfast.inbox i
    set status = case when i.cancel_requested_at is not null and not holdfast.is_workflow(i.kind) then 'failed'
                      when i.cancel_requested_at is not null and holdfast.to_undo(i.id, i.headers, i.lease_generation)
                           or i.attempts < i.max_attempts and f.give_up is not true then 'pending'
                      else 'dead_letter' end::holdfast.inbox_status,
        available_at = case when i.cancel_requested_at is not null and holdfast.to_undo(i.id, i.headers, i.lease_generation)
                            then clock_timestamp()
                            when i.attempts < i.max_attempts and f.give_up is not true
                            then clock_timestamp() + case when f.delay is null then holdfast.retry_delay(i.kind, i.attempts)
                                                          else make_interval(secs => least(f.delay, 3155760000)) end
                            else i.available_at end,
        attempts = case when i.cancel_requested_at is not null and holdfast.to_undo(i.id, i.headers, i.lease_generation)
                        then 0 else i.attempts end,
        dead_at = case when i.attempts < i.max_attempts and f.give_up is not true
                            or i.cancel_requested_at is not null
                               and (not holdfast.is_workflow(i.kind) or holdfast.to_undo(i.id, i.headers, i.lease_generation))
                       then null else holdfast.clock() end,
        -- Unknown: with one expired lease, a whole machine may be gone with all that it held, most of it never started.
        -- Only the second expired lease or death in a row makes a suspect, which runs in isolation.
        crashes = case when f.crashed then i.crashes + 1
                       when not f.crashed then 0
                       when i.errors -> -1 ->> 'error' in ('LeaseExpired', 'WorkerDied') then i.crashes + 1
                       else i.crashes end,
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null,
        last_error = case when i.cancel_requested_at is not null and not holdfast.is_workflow(i.kind)
                          then 'cancelled while it ran; ' else '' end || f.last_error,
        -- Every attempt is kept, from the 26th on without its trace: a row that always fails must not grow without limit.
        error_group = coalesce(f.record ->> 'group', holdfast.error_group(i.kind, f.record ->> 'error')),
        -- A traced attempt names its span, and the next one links to it.
        headers = case when f.record -> 'details' ->> 'traceparent' is null then i.headers
                       else coalesce(i.headers, '{}')
                            || jsonb_build_object('holdfast.previous', f.record -> 'details' -> 'traceparent') end,
        errors = coalesce(i.errors, '[]') || jsonb_build_array(
            f.record
            || case when jsonb_typeof(i.errors) = 'array' and jsonb_array_length(i.errors) >= 25
                    then jsonb_build_object('trace', '', 'message', left(f.record ->> 'message', 500)) else '{}' end
            || jsonb_build_object('attempt', i.attempts, 'generation', i.lease_generation, 'worker', i.claimed_by,
                                  'at', holdfast.clock()))
    from unnest(workers, ids, generations, last_errors, records, delays, give_up, crashed)
         as f (worker, id, generation, last_error, record, delay, give_up, crashed)
    where i.id = any (array[f.id])
      and i.claimed_by is not distinct from f.worker           -- null: a row that hand-written SQL made, for the sweep
      and i.lease_generation = f.generation
      and i.status::text = 'processing'
    returning i.id, i.status::text as status, f.worker, f.generation, i.queue, i.attempts
    )
    select d.id, d.status, d.worker, d.generation
    from failed d
    -- What must be undone waits for nobody's poll.
    where case when d.attempts = 0 then holdfast.wake(d.queue) is not null else true end;
end
$$;
