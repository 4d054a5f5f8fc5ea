-- The moment from which the rows of a COPY are available.
-- The condition draws the transaction's xid before the clock is read, which the claim floor relies on. (As an unused
-- output column the planner would leave it out.)
select clock_timestamp() as now
where pg_current_xact_id() is not null
