-- End attempts that failed: pending again after the backoff, a dead letter when no attempt is left, or failed when the job
-- was cancelled meanwhile (the chore archive moves it).
-- Takes    $1 ids in ascending order, $2 generations, $3 errors as stored in last_error, $4 the same as JSON records,
--          $5 worker, $6 did the attempt take its process down?
-- Returns  id, status, available_at. An id that does not come back was lost.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
update holdfast.inbox i
set status = case when i.cancel_requested_at is not null then 'failed'
                  when i.attempts < i.max_attempts then 'pending' else 'dead_letter' end::holdfast.inbox_status,
    available_at = case when i.attempts < i.max_attempts
                        then clock_timestamp() + holdfast.backoff(i.attempts) else i.available_at end,
    dead_at = case when i.attempts < i.max_attempts or i.cancel_requested_at is not null then null else holdfast.clock() end,
    crashes = case when $6 then i.crashes + 1 else 0 end,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null,
    last_error = case when i.cancel_requested_at is not null then 'cancelled while it ran; ' || f.last_error else f.last_error end,
    -- Every attempt stays, but from the 26th on without its trace: a row that fails for ever must not grow for ever.
    errors = coalesce(i.errors, '[]') || pg_catalog.jsonb_build_array(
        f.record::jsonb
        || case when jsonb_array_length(i.errors) >= 25
                then pg_catalog.jsonb_build_object('trace', '', 'message', left(f.record::jsonb ->> 'message'::text, 500)) else '{}' end
        || pg_catalog.jsonb_build_object(
            'attempt', i.attempts, 'generation', i.lease_generation, 'worker', i.claimed_by, 'at', holdfast.clock()))
from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) as f (id, generation, last_error, record)
where i.id = any (array[f.id])
  and i.claimed_by = $5
  and i.lease_generation = f.generation
  and i.status::text = 'processing'
returning i.id, i.status::text as status, i.available_at
