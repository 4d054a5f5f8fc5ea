-- Live jobs, newest first.
-- Takes    $1 status, $2 queue, $3 kind (each null: any), $4 limit.
select j.id, j.queue, j.kind,
       case when j.status::text = 'failed' and j.cancel_requested_at is not null then 'cancelled' else j.status::text end as status,
       j.partition_key as key, j.attempts, j.max_attempts, j.claimed_by,
       j.available_at, j.created_at, j.last_error
from holdfast.inbox j
where ($1::text is null or j.status = $1::holdfast.inbox_status)
  and ($2::text is null or j.queue = $2)
  and ($3::text is null or j.kind = $3)
order by j.id desc
limit $4
