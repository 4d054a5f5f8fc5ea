-- Cancel jobs, as cancel.sql does.
-- Takes    $1 ids, $2 reason.
-- Returns  id and status, as cancel.sql does.
-- Locks, index: see holdfast.cancel_jobs.
select c.id, c.status from holdfast.cancel_jobs($1::uuid[], $2::text) c
