-- Live jobs by filter: their ids, in no order.
-- Takes    $1 statuses, $2 queue, $3 kind, $4 text in the last error (each null: any), $5 enqueued, or became a dead letter,
--          within this many seconds (null: ever), $6 only pending jobs that wait for their time or their retry, $7 limit,
--          $8 error group of the last failed attempt (null: any).
-- Index    idx_inbox_dead for dead letters; the others read the live rows, as the counts of queues.sql do.
select d.id
from holdfast.inbox d
where 'dead_letter' = any ($1::text[]) and not $6::boolean
  and d.status = 'dead_letter'
  and ($2::text is null or d.queue = $2)
  and ($3::text is null or d.kind = $3)
  and ($4::text is null or pg_catalog.strpos(d.last_error, $4) > 0)
  and ($8::text is null or d.error_group = $8)
  and ($5::float8 is null or d.dead_at >= holdfast.clock() - make_interval(secs => $5))
union all
select i.id
from holdfast.inbox i
where i.status in ('pending', 'processing', 'blocked')
  and i.status::text = any ($1::text[])
  and ($2::text is null or i.queue = $2)
  and ($3::text is null or i.kind = $3)
  and ($4::text is null or pg_catalog.strpos(i.last_error, $4) > 0)
  and ($8::text is null or i.error_group = $8)
  and ($5::float8 is null or i.created_at >= holdfast.clock() - make_interval(secs => $5))
  and (not $6::boolean or i.status = 'pending' and i.available_at > holdfast.clock())
limit $7
