-- Enter a once() block: is its effect still to be made?
-- Takes    $1 key, $2 job, $3 fence of this attempt.
-- Returns  one row: done (finished before), busy (another live attempt is inside), or neither: this attempt is inside.
-- Locks    the marker.
-- Index    primary keys.
with entered as (
    insert into holdfast.once as o (key, job_id, fence, entered_at)
    values ($1, $2, $3, holdfast.clock())
    on conflict (key) do update
        set job_id = excluded.job_id, fence = excluded.fence, entered_at = excluded.entered_at
        where o.done_at is null
          and o.fence < excluded.fence
          and not exists (
              select from holdfast.inbox i
              where i.id = o.job_id and i.id <> excluded.job_id and i.fence = o.fence and i.status::text = 'processing'
                and i.lease_expires_at > holdfast.clock())
    returning o.key
)
select o.done_at is not null as done,
       o.done_at is null and not exists (select from entered) as busy
from (select) as always
left join holdfast.once o on o.key = $1
