-- What the rows of a COPY cannot find out for themselves: the moment from which they are available, and the queue's mode.
-- Takes    $1 queue, $2 ordered, $3 skips (null: as the queue says), $4 delay in seconds, $5 instant,
--          $6 how many there are.
-- Returns  now, ordered, skips, owned; the commit sends the wake-up.
-- The condition draws the transaction's xid before the clock is read, which the claim floor relies on. (As an unused
-- output column the planner would leave it out.)
select clock_timestamp() as now,
       coalesce($2::boolean, q.ordered, false)
           and holdfast.may_wait($1::text, coalesce($3::boolean, q.skips, false),
                                 greatest(clock_timestamp() + make_interval(secs => $4::float8), $5::text::timestamptz)) as ordered,
       coalesce($3::boolean, q.skips, false) as skips,
       coalesce(q.owned, false) as owned,
       holdfast.wake($1::text, $4::float8, $5::text::timestamptz, $6::int) as woken
from (select) as always
left join holdfast.queues q on q.name = $1::text
where pg_current_xact_id() is not null
