-- What the rows of a COPY cannot find out for themselves: when they are available and expire, and the modes of their queue.
-- Takes    $1 terms as JSON, see holdfast.terms; $2 how many jobs.
-- Returns  now, ordered, skips, owned, expires_at; the commit sends the wake-up.
-- The condition draws the transaction's xid before the clock is read, which the claim floor relies on. (As an unused
-- output column the planner would leave it out.)
select clock_timestamp() as now,
       coalesce(t.ordered, q.ordered, false)
           and holdfast.may_wait(t.queue, coalesce(t.skips, q.skips, false),
                                 greatest(clock_timestamp() + make_interval(secs => t.delay), t.at)) as ordered,
       coalesce(t.skips, q.skips, false) as skips,
       coalesce(q.owned, false) as owned,
       holdfast.expiry(t, greatest(clock_timestamp() + make_interval(secs => t.delay), t.at)) as expires_at,
       holdfast.wake(t.queue, t.delay, t.at, $2::int) as woken
from pg_catalog.jsonb_populate_record(null::holdfast.terms, $1::text::jsonb) as t
left join holdfast.queues q on q.name = t.queue
where pg_current_xact_id() is not null
