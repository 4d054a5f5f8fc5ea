-- Snooze rows, for a hundred years at most; the attempt is not counted. A row whose handler has snoozed it as often as it
-- may becomes a dead letter: a job must not wait forever without anyone noticing.
-- Takes    $1 ids in ascending order, $2 generations, $3 delays in seconds, $4 did the handler ask for it? (if not, it does
--          not count), $5 worker.
-- Returns  id, status. An id that does not come back was lost.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
update holdfast.inbox i
set status = case when s.counted and holdfast.snoozed_out(i.kind, i.snoozes) then 'dead_letter' else 'pending'
             end::holdfast.inbox_status,
    dead_at = case when s.counted and holdfast.snoozed_out(i.kind, i.snoozes) then holdfast.clock() end,
    available_at = clock_timestamp() + make_interval(secs => least(s.delay, 3155760000)),
    attempts = greatest(i.attempts - 1, 0),
    snoozes = case when s.counted then coalesce(i.snoozes, 0) + 1 else i.snoozes end,
    last_error = case when s.counted and holdfast.snoozed_out(i.kind, i.snoozes)
                      then 'SnoozeLimit: the handler has snoozed this job ' || i.snoozes::text || ' times'
                      else i.last_error end,
    errors = case when s.counted and holdfast.snoozed_out(i.kind, i.snoozes)
                  then coalesce(i.errors, '[]') || pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
                           'error', 'SnoozeLimit'::text, 'trace', ''::text, 'attempt', i.attempts,
                           'message', 'the handler has snoozed this job ' || i.snoozes::text || ' times',
                           'generation', i.lease_generation, 'worker', i.claimed_by, 'at', holdfast.clock()))
                  else i.errors end,
    crashes = 0,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from unnest($1::uuid[], $2::bigint[], $3::float8[], $4::boolean[]) as s (id, generation, delay, counted)
where i.id = any (array[s.id])
  and i.claimed_by = $5
  and i.lease_generation = s.generation
  and i.status::text = 'processing'
returning i.id, i.status::text
