-- Recover rows whose lease ran out: pending again after the backoff, or dead letters when no attempt is left.
-- Takes    $1 floor: leases that ended before it were swept already; $2 the time by which they must have ended, which is
--          that of an answer of this turn: on its way during an outage, this statement may come much later, when every
--          lease is out; $3 batch.
-- Returns  id, status, worker and generation that lost it.
-- Locks    the rows, in order of id, skipping locked ones (their owner is writing about them); never waits.
-- Index    idx_inbox_stale_processing, from the floor on.
with expired as materialized (
    select e.id
    from (
        select i.id
        from holdfast.inbox i
        where i.status = 'processing'
          and i.lease_expires_at >= $1
          and i.lease_expires_at < $2
        order by i.lease_expires_at
        limit $3
    ) e
    order by e.id
),
locked as materialized (
    select i.id, i.claimed_by
    from expired e
    join holdfast.inbox i on i.id = any (array[e.id])
    where i.status::text = 'processing'
      and i.lease_expires_at < $2
    order by e.id
    for update of i skip locked
)
update holdfast.inbox i
set status = case when i.attempts < i.max_attempts then 'pending' else 'dead_letter' end::holdfast.inbox_status,
    available_at = case when i.attempts < i.max_attempts
                        then clock_timestamp() + holdfast.backoff(i.attempts) else i.available_at end,
    dead_at = case when i.attempts < i.max_attempts then null else holdfast.clock() end,
    -- One expired lease may be a machine that went away with all it held, most of it never started. Only a second death
    -- in a row makes a suspect, which runs alone.
    crashes = case when i.errors -> -1 ->> 'error'::text in ('LeaseExpired', 'WorkerDied') then i.crashes + 1 else i.crashes end,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null,
    last_error = pg_catalog.format('LeaseExpired: worker %s did not renew attempt %s (generation %s)',
                        i.claimed_by, i.attempts, i.lease_generation),
    errors = coalesce(i.errors, '[]') || pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
        'error', 'LeaseExpired', 'message', 'the worker died or lost touch before the attempt ended', 'trace', '',
        'attempt', i.attempts, 'generation', i.lease_generation, 'worker', i.claimed_by, 'at', holdfast.clock()))
from locked
where i.id = any (array[locked.id])
returning i.id, i.status::text as status, locked.claimed_by as worker, i.lease_generation
