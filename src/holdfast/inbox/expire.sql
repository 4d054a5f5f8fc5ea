-- End rows that have expired before they started: see schema/functions/expire_jobs.sql.
-- Takes    $1 ids in ascending order, $2 generations, $3 worker.
-- Returns  the ids. An id that does not come back was lost.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
select e.id from holdfast.expire_jobs($1::uuid[], $2::bigint[], $3::text) e
