-- Live instances, the longest in their state first.
-- Takes    $1 workflow (null: all), $2 states (null: all), $3 most rows.
-- Returns  columns of holdfast.workflows.
-- An operator's question: it reads the rows of all live workflows.
select w.instance, w.job_id, w.workflow, w.version, w.state, w.since, w.waits, w.wake_at, w.dead_children,
       w.cancel_requested_at, w.parent_id, w.queue, w.claimed_by, w.runs, w.last_error, w.created_at
from holdfast.workflows w
where ($1::text is null or w.workflow = $1::text)
  and ($2::text[] is null or w.state = any ($2::text[]))
order by w.since, w.job_id
limit $3::int
