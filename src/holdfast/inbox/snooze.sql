-- Snooze rows, for a hundred years at most; the attempt is not counted.
-- Takes    $1 ids in ascending order, $2 generations, $3 delays in seconds, $4 worker.
-- Returns  the ids snoozed. An id that does not come back was lost.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
update holdfast.inbox i
set status = 'pending',
    available_at = clock_timestamp() + make_interval(secs => least(s.delay, 3155760000)),
    attempts = greatest(i.attempts - 1, 0),
    crashes = 0,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from unnest($1::uuid[], $2::bigint[], $3::float8[]) as s (id, generation, delay)
where i.id = any (array[s.id])
  and i.claimed_by = $4
  and i.lease_generation = s.generation
  and i.status::text = 'processing'
returning i.id
