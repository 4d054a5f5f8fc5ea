-- Make pending jobs due now that wait for their time or their retry, and wake workers.
-- Takes    $1 ids, $2 who does it.
-- Returns  the ids of those that were waiting.
-- Locks, index: see holdfast.run_now.
select r.id from holdfast.run_now($1::uuid[], $2::text) as r (id)
