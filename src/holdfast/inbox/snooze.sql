-- Snooze rows, for a hundred years at most; the attempt is not counted. Rows whose handlers have snoozed them as often as
-- they may are left to fail_snoozed.sql.
-- Takes    $1 ids in ascending order, $2 generations, $3 delays in seconds, $4 did the handler ask for it? (if not, it does
--          not count), $5 worker.
-- Returns  the ids. An id that does not come back was lost, or snoozed too often.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
update holdfast.inbox i
set status = 'pending',
    available_at = clock_timestamp() + make_interval(secs => least(s.delay, 3155760000)),
    attempts = greatest(i.attempts - 1, 0),
    snoozes = case when s.counted then coalesce(i.snoozes, 0) + 1 else i.snoozes end,
    crashes = 0,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from unnest($1::uuid[], $2::bigint[], $3::float8[], $4::boolean[]) as s (id, generation, delay, counted)
where i.id = any (array[s.id])
  and i.claimed_by = $5
  and i.lease_generation = s.generation
  and i.status::text = 'processing'
  and not (s.counted and holdfast.snoozed_out(i.kind, i.snoozes))
returning i.id
