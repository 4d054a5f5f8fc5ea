-- Recover rows whose lease has expired: their attempts have failed (schema/functions/fail_attempts.sql).
-- Takes    $1, $2 floor (lease_expires_at, id): rows up to it were looked at already; $3 the time before which leases must
--          have expired. It comes from an earlier answer of this turn: during an outage, this statement may arrive much
--          later, when every lease has expired; $4 batch.
-- Returns  one row first: the end of the batch if it was full (lease_expires_at, id), and the oldest lease that was locked
--          and passed over. Then, per row: id, status, worker and generation that lost it, queue, kind.
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
    select i.id, i.claimed_by, i.lease_generation, i.attempts, i.queue, i.kind
    from expired e
    join holdfast.inbox i on i.id = any (array[e.id])
    where i.status::text = 'processing'
      and i.lease_expires_at < $3
    order by e.id
    for update of i skip locked
),
swept as materialized (
    select f.id, f.status, f.worker, f.generation
    from holdfast.fail_attempts(
        array(select k.claimed_by from locked k),
        array(select k.id from locked k),
        array(select k.lease_generation from locked k),
        array(select pg_catalog.format('LeaseExpired: worker %s did not renew attempt %s (generation %s)',
                                       k.claimed_by, k.attempts, k.lease_generation) from locked k),
        array(select pg_catalog.jsonb_build_object(
                  'error', 'LeaseExpired', 'message', 'the worker died or lost touch before the attempt ended', 'trace', '')
              from locked k),
        '{}', '{}', '{}') f
)
select l.id, l.lease_expires_at,
       (select min(f.lease_expires_at) from found f where f.id not in (select k.id from locked k)) as passed_over,
       null::text as status, null::text as worker, null::bigint as lease_generation, null::text as queue, null::text as kind
from (select) as always
left join lateral (
    select f.id, f.lease_expires_at
    from found f
    where (select count(*) from found) >= $4
    order by f.lease_expires_at desc, f.id desc
    limit 1
) l on true
union all
select s.id, null, null, s.status, s.worker, s.generation, k.queue, k.kind
from swept s
join locked k on k.id = s.id
