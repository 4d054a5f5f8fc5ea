-- Dead letters, latest first.
-- Takes    $1 queue, $2 kind, $3 text in the last error (each null: any),
--          $4 became a dead letter within this many seconds, $5 limit, $6 error group (null: any).
-- Index    idx_inbox_dead, backwards.
select d.id, d.queue, d.kind, d.partition_key as key, d.attempts, d.max_attempts, d.dead_at, d.created_at, d.last_error,
       d.error_group
from holdfast.inbox d
where d.status = 'dead_letter'
  and ($1::text is null or d.queue = $1)
  and ($2::text is null or d.kind = $2)
  and ($3::text is null or d.last_error like '%' || replace(replace(replace($3, '\', '\\'), '%', '\%'), '_', '\_') || '%')
  and ($4::float8 is null or d.dead_at >= holdfast.clock() - make_interval(secs => $4))
  and ($6::text is null or d.error_group = $6)
order by d.dead_at desc nulls first, d.id desc
limit $5
