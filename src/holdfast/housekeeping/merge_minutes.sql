-- Add up minutes that are older than two days, ten at a time.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Locks    the rows.
-- Index    the primary key of minutes.
with old as materialized (
    select m.at, m.queue, m.kind
    from holdfast.minutes m
    where m.at >= $2
      and m.at < date_bin(interval '10 minutes', holdfast.clock() - interval '2 days', '1970-01-01Z')
      and m.at <> date_bin(interval '10 minutes', m.at, '1970-01-01Z')
    order by m.at, m.queue, m.kind
    limit $1
),
taken as (
    delete from holdfast.minutes m
    using old o
    where m.at = o.at and m.queue = o.queue and m.kind = o.kind
    returning date_bin(interval '10 minutes', m.at, '1970-01-01Z') as at, m.queue, m.kind, m.started, m.completed, m.failed,
              m.cancelled, m.expired, m.retried, m.dead, m.snoozed, m.parked, m.fenced, m.lease_losses, m.reconnects, m.run, m.pickup,
              m.run_sum, m.pickup_sum, m.depth, m.claim_age
),
cells as (
    select t.at, t.queue, t.kind, b.bucket, pg_catalog.sum(t.run[b.bucket])::bigint as run,
           pg_catalog.sum(t.pickup[b.bucket])::bigint as pickup
    from taken t
    cross join lateral generate_series(1, greatest(pg_catalog.cardinality(t.run), pg_catalog.cardinality(t.pickup))) as b (bucket)
    group by t.at, t.queue, t.kind, b.bucket
),
histograms as (
    select c.at, c.queue, c.kind, pg_catalog.array_agg(coalesce(c.run, 0) order by c.bucket) as run,
           pg_catalog.array_agg(coalesce(c.pickup, 0) order by c.bucket) as pickup
    from cells c
    group by c.at, c.queue, c.kind
),
merged as (
    insert into holdfast.minutes (at, queue, kind, started, completed, failed, cancelled, expired, retried, dead, snoozed, parked, fenced,
        lease_losses, reconnects, run, pickup, run_sum, pickup_sum, depth, claim_age)
    select t.at, t.queue, t.kind, pg_catalog.sum(t.started), pg_catalog.sum(t.completed), pg_catalog.sum(t.failed),
           pg_catalog.sum(t.cancelled), pg_catalog.sum(t.expired), pg_catalog.sum(t.retried), pg_catalog.sum(t.dead),
           pg_catalog.sum(t.snoozed), pg_catalog.sum(t.parked), pg_catalog.sum(t.fenced), pg_catalog.sum(t.lease_losses), pg_catalog.sum(t.reconnects),
           coalesce(h.run, '{}'), coalesce(h.pickup, '{}'), pg_catalog.sum(t.run_sum), pg_catalog.sum(t.pickup_sum),
           pg_catalog.max(t.depth), pg_catalog.max(t.claim_age)
    from taken t
    left join histograms h on h.at = t.at and h.queue = t.queue and h.kind = t.kind
    group by t.at, t.queue, t.kind, h.run, h.pickup
    on conflict (at, queue, kind) do update
    set started = minutes.started + excluded.started, completed = minutes.completed + excluded.completed,
        failed = minutes.failed + excluded.failed, cancelled = minutes.cancelled + excluded.cancelled,
        expired = minutes.expired + excluded.expired, retried = minutes.retried + excluded.retried,
        dead = minutes.dead + excluded.dead, snoozed = minutes.snoozed + excluded.snoozed,
        parked = minutes.parked + excluded.parked,
        fenced = minutes.fenced + excluded.fenced, lease_losses = minutes.lease_losses + excluded.lease_losses,
        reconnects = minutes.reconnects + excluded.reconnects, run = holdfast.add_counts(minutes.run, excluded.run),
        pickup = holdfast.add_counts(minutes.pickup, excluded.pickup), run_sum = minutes.run_sum + excluded.run_sum,
        pickup_sum = minutes.pickup_sum + excluded.pickup_sum, depth = greatest(minutes.depth, excluded.depth),
        claim_age = greatest(minutes.claim_age, excluded.claim_age)
    returning 1
)
select (select count(*) from taken)::int as rows, (select case when count(*) >= $1 then pg_catalog.max(o.at) end from old o) as last
from (select count(*) from merged) as always
