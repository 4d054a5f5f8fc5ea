-- Enqueue a job of a schedule now; its slots stay as they are, and it may be paused.
-- Takes    $1 name, $2 id of the job, by which a repeated call finds it.
-- Returns  the id; nothing when there is none of this name.
select e.job_id
from holdfast.schedules s
cross join lateral holdfast.enqueue_scheduled(s, null, $2) as e
where s.name = $1
