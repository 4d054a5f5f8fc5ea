-- A page of the jobs that run now, those whose lease is renewed next first.
-- Takes    $1 queue, $2 kind, $3 key, $4 worker (each null: any), $5 how many to look through, $6 how many to return.
-- Index    idx_inbox_stale_processing.
select n.id, n.queue, n.kind, 'processing' as status, n.key, n.attempts, n.max_attempts, n.claimed_by, n.available_at,
       n.created_at, n.last_error, n.claimed_at
from (
    select j.id, j.queue, j.kind, j.partition_key as key, j.attempts, j.max_attempts, j.claimed_by, j.available_at, j.created_at,
           j.last_error, j.claimed_at, j.lease_expires_at
    from holdfast.inbox j
    where j.status = 'processing'
    order by j.lease_expires_at, j.id
    limit $5
) n
where ($1::text is null or n.queue = $1::text)
  and ($2::text is null or n.kind = $2::text)
  and ($3::text is null or n.key = $3::text)
  and ($4::text is null or n.claimed_by = $4::text)
order by n.lease_expires_at, n.id
limit $6
