-- End attempts whose handlers have snoozed their jobs once too often, as failed attempts that give up: a job must not wait
-- forever without anyone noticing. See schema/functions/fail_attempts.sql.
-- Takes    $1 ids in ascending order, $2 generations, $3 worker: what snooze.sql has left. Whether it was too often is not
--          asked again: the limit may have changed since then, and what neither statement ended would wait for its lease.
-- Returns  id, status, error as stored in last_error. An id that does not come back was lost.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
with held as materialized (
    select i.id, i.lease_generation, 'the handler has snoozed this job ' || coalesce(i.snoozes, 0)::text || ' times' as message
    from unnest($1::uuid[], $2::bigint[]) as s (id, generation)
    join holdfast.inbox i on i.id = any (array[s.id])
    where i.claimed_by = $3
      and i.lease_generation = s.generation
      and i.status::text = 'processing'
)
select f.id, f.status, (select 'SnoozeLimit: ' || h.message from held h where h.id = f.id) as last_error
from holdfast.fail_attempts(
    array(select $3::text from held h),
    array(select h.id from held h),
    array(select h.lease_generation from held h),
    array(select 'SnoozeLimit: ' || h.message from held h),
    array(select pg_catalog.jsonb_build_object('error', 'SnoozeLimit'::text, 'message', h.message, 'trace', ''::text) from held h),
    '{}',
    array(select true from held h),
    array(select false from held h)) f
