-- Add what a supervisor has counted to the minute that it is now.
-- Takes    $1 queues, $2 kinds, in this order; $3–$14 counts; $15 and $16 the histograms, one after the other,
--          of $17 buckets each; $18, $19 their sums.
-- Locks    the rows, in the order of their keys.
-- Index    the primary key of minutes.
insert into holdfast.minutes (at, queue, kind, started, completed, failed, cancelled, expired, retried, dead, snoozed, parked,
    fenced, lease_losses, reconnects, run, pickup, run_sum, pickup_sum)
select date_trunc('minute', holdfast.clock()), u.queue, u.kind,
       u.started, u.completed, u.failed, u.cancelled, u.expired, u.retried, u.dead, u.snoozed, u.parked, u.fenced, u.lease_losses, u.reconnects,
       ($15::bigint[])[(u.n - 1) * $17::int + 1 : u.n * $17::int],
       ($16::bigint[])[(u.n - 1) * $17::int + 1 : u.n * $17::int],
       u.run_sum, u.pickup_sum
from unnest($1::text[], $2::text[],
            $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
            $18::float8[], $19::float8[])
     with ordinality as u (queue, kind, started, completed, failed, cancelled, expired, retried, dead, snoozed, parked, fenced,
                           lease_losses, reconnects, run_sum, pickup_sum, n)
order by u.queue, u.kind
on conflict (at, queue, kind) do update
set started = minutes.started + excluded.started, completed = minutes.completed + excluded.completed,
    failed = minutes.failed + excluded.failed, cancelled = minutes.cancelled + excluded.cancelled,
    expired = minutes.expired + excluded.expired, retried = minutes.retried + excluded.retried,
    dead = minutes.dead + excluded.dead, snoozed = minutes.snoozed + excluded.snoozed,
    parked = minutes.parked + excluded.parked, fenced = minutes.fenced + excluded.fenced,
    lease_losses = minutes.lease_losses + excluded.lease_losses, reconnects = minutes.reconnects + excluded.reconnects,
    run = holdfast.add_counts(minutes.run, excluded.run), pickup = holdfast.add_counts(minutes.pickup, excluded.pickup),
    run_sum = minutes.run_sum + excluded.run_sum, pickup_sum = minutes.pickup_sum + excluded.pickup_sum
