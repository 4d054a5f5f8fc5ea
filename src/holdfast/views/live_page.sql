-- A page of live jobs, newest first, among the newest of them: a filter that matches little must not read the whole table.
-- Takes    $1 ids below this one (null: from the newest), $2 how many to look through, $3 status or 'scheduled' or 'retrying',
--          $4 queue, $5 kind, $6 key, $7 a text in the payload or the last error (each null: any), $8 how many to return.
-- Returns  the jobs, and a row without an id whose "reach" is the last id that was looked at (null: all were).
-- Index    the primary key, backwards.
with newest as materialized (
    select j.id, j.queue, j.kind,
           case when j.status::text = 'failed' and j.cancel_requested_at is not null then 'cancelled' else j.status::text end as status,
           j.partition_key as key, j.attempts, j.max_attempts, j.claimed_by, j.available_at, j.created_at, j.last_error,
           j.payload::text as payload, j.available_at > holdfast.clock() as later
    from holdfast.inbox j
    where j.id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by j.id desc
    limit $2
),
matching as (
    select n.id, n.queue, n.kind, n.status, n.key, n.attempts, n.max_attempts, n.claimed_by, n.available_at, n.created_at,
           n.last_error, case when $7::text is not null then n.payload end as payload, n.later
    from newest n
    where case $3::text when 'scheduled' then n.status = 'pending' and n.later and n.attempts = 0
                        when 'retrying' then n.status = 'pending' and n.attempts > 0
                        else $3::text is null or n.status = $3::text end
      and ($4::text is null or n.queue = $4::text)
      and ($5::text is null or n.kind = $5::text)
      and ($6::text is null or n.key = $6::text)
      and ($7::text is null or pg_catalog.strpos(n.payload, $7::text) > 0 or pg_catalog.strpos(n.last_error, $7::text) > 0)
    order by n.id desc
    limit $8
)
select m.id, m.queue, m.kind, m.status, m.key, m.attempts, m.max_attempts, m.claimed_by, m.available_at, m.created_at,
       m.last_error, m.payload, m.later, null::uuid as reach
from matching m
union all
select null::uuid, null, null, null, null, null, null, null, null, null, null, null, null,
       (select n.id from newest n order by n.id limit 1)
where (select count(*) from newest n) = $2
order by 1 desc nulls last
