-- Take a chore's lock, unless another has it. Inside a transaction, whose end gives it back. A statement of its own: what
-- turn.sql reads must be what whoever had the lock before has left.
-- Takes    $1 name of the lock.
-- Returns  was it free?
select pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))
