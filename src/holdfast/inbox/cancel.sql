-- Cancel a job: a waiting one ends at once, the handler of a running one is notified.
-- Takes    $1 id, $2 reason.
-- Returns  one row: cancelled (it ended), processing (its handler is notified), dead_letter (nothing was done), or nothing
--          if there is no such live job.
-- Locks, index: see holdfast.cancel_jobs.
select c.status from holdfast.cancel_jobs(array[$1::uuid], $2::text) c
