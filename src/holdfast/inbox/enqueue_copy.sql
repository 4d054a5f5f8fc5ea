-- The moment from which the rows of a COPY are available.
-- Takes    $1 queue, $2 delay in seconds, $3 instant: for the wake-up, which the commit sends.
-- The condition draws the transaction's xid before the clock is read, which the claim floor relies on. (As an unused
-- output column the planner would leave it out.)
select clock_timestamp() as now, holdfast.wake($1::text, $2::float8, $3::text::timestamptz) as woken
where pg_current_xact_id() is not null
