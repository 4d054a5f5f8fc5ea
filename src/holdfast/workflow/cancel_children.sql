-- Cancel the jobs that an instance waits for, because it has failed, and is being undone. That it has failed is recorded.
-- Takes    $1 id, $2 generation, $3 worker.
-- Returns  the ids of those that were cancelled, or are told to be undone.
-- Locks    as cancel_jobs.sql; waits for transactions that hold these rows. Not the row of the instance, because the rows in
--          "instances" come before it. One that was lost in this moment has failed all the same.
-- Index    primary keys alone (see complete.sql).
select c.id
from holdfast.cancel_jobs(array(
         select s.child_id
         from holdfast.inbox i
         join holdfast.steps s on s.job_id = any (array[i.id])
         where i.id = any (array[$1::uuid])
           and i.claimed_by = $3::text
           and i.lease_generation = $2::bigint
           and i.status::text = 'processing'
           and s.kind = 'child'
           and s.status = 'open'),
     'the workflow that waits for it failed') c
