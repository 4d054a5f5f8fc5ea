-- Recover rows whose lease ran out: pending again after the backoff, dead letters when no attempt is left, or failed when
-- they were cancelled meanwhile (the chore archive moves those).
-- Takes    $1, $2 floor: leases that ended before it, and of those that ended at it rows up to this id, were looked at
--          already; $3 the time by which they must have ended, which is that of an answer of this turn: on its way during an
--          outage, this statement may come much later, when every lease is out; $4 batch.
-- Returns  one row first: the end of the look if it was a full batch (lease_expires_at, id), and the oldest lease that was
--          passed over. Then, per row: id, status, worker and generation that lost it.
-- Locks    the rows, in order of id, skipping locked ones (their owner is writing about them); never waits.
-- Index    idx_inbox_stale_processing, from the floor on.
with found as materialized (
    select i.id, i.lease_expires_at
    from holdfast.inbox i
    where i.status = 'processing'
      and i.lease_expires_at >= $1
      and (i.lease_expires_at, i.id) > ($1, $2)
      and i.lease_expires_at < $3
    order by i.lease_expires_at, i.id
    limit $4
),
expired as materialized (
    select f.id from found f order by f.id
),
locked as materialized (
    select i.id, i.claimed_by
    from expired e
    join holdfast.inbox i on i.id = any (array[e.id])
    where i.status::text = 'processing'
      and i.lease_expires_at < $3
    order by e.id
    for update of i skip locked
),
swept as (
    update holdfast.inbox i
    set status = case when i.cancel_requested_at is not null then 'failed'
                      when i.attempts < i.max_attempts then 'pending' else 'dead_letter' end::holdfast.inbox_status,
        available_at = case when i.attempts < i.max_attempts
                            then clock_timestamp() + holdfast.backoff(i.attempts) else i.available_at end,
        dead_at = case when i.attempts < i.max_attempts or i.cancel_requested_at is not null
                       then null else holdfast.clock() end,
        -- One expired lease may be a machine that went away with all it held, most of it never started. Only a second
        -- death in a row makes a suspect, which runs alone.
        crashes = case when i.errors -> -1 ->> 'error'::text in ('LeaseExpired', 'WorkerDied') then i.crashes + 1 else i.crashes end,
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null,
        last_error = pg_catalog.format('%sLeaseExpired: worker %s did not renew attempt %s (generation %s)',
                            case when i.cancel_requested_at is not null then 'cancelled while it ran; ' end,
                            i.claimed_by, i.attempts, i.lease_generation),
        errors = coalesce(i.errors, '[]') || pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
            'error', 'LeaseExpired', 'message', 'the worker died or lost touch before the attempt ended', 'trace', '',
            'attempt', i.attempts, 'generation', i.lease_generation, 'worker', i.claimed_by, 'at', holdfast.clock()))
    from locked
    where i.id = any (array[locked.id])
    returning i.id, i.status::text as status, locked.claimed_by as worker, i.lease_generation
)
select l.id, l.lease_expires_at,
       (select min(f.lease_expires_at) from found f where f.id not in (select k.id from locked k)) as passed_over,
       null::text as status, null::text as worker, null::bigint as lease_generation
from (select) as always
left join lateral (
    select f.id, f.lease_expires_at
    from found f
    where (select count(*) from found) >= $4
    order by f.lease_expires_at desc, f.id desc
    limit 1
) l on true
union all
select s.id, null, null, s.status, s.worker, s.lease_generation
from swept s
