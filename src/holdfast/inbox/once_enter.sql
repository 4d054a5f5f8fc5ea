-- Enter a once() block: should this attempt make the effect?
-- Takes    $1 key, $2 job, $3 fence of this attempt.
-- Returns  one row: held (this attempt still owns its job), done (finished before), busy (another live attempt is inside);
--          held and neither of the others: this attempt is inside. Entering again in the same attempt is allowed:
--          a block that raised may be retried. A marker finished a moment ago may still read as busy.
-- Locks    the marker.
-- Index    primary keys.
with held as materialized (
    select i.id
    from holdfast.inbox i
    where i.id = $2
      and i.fence = $3
      and i.status::text = 'processing'
),
entered as (
    insert into holdfast.once as o (key, job_id, fence, entered_at)
    select $1, held.id, $3, holdfast.clock()
    from held
    on conflict (key) do update
        set job_id = excluded.job_id, fence = excluded.fence, entered_at = excluded.entered_at
        where o.done_at is null
          and o.fence <= excluded.fence
          and not exists (
              select from holdfast.inbox i
              where i.id = o.job_id and i.id <> excluded.job_id and i.fence = o.fence and i.status::text = 'processing'
                and i.lease_expires_at > holdfast.clock())
    returning o.key
)
select exists (select from held) as held,
       o.done_at is not null as done,
       o.done_at is null and not exists (select from entered) as busy
from (select) as always
left join holdfast.once o on o.key = $1
