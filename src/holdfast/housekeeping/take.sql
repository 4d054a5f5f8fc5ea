-- Take a chore's lock, unless another host has it. The end of the transaction releases it. A separate statement: turn.sql
-- must see what the previous holder of the lock has committed.
-- Takes    $1 name of the lock.
-- Returns  was it free?
select pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))
