-- Forget once() markers that were entered before the horizon and never finished, unless their job is still there: it may
-- be inside. Nothing else needs them: the next attempt to enter makes a new one.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Locks    the rows, in order of their keys, skipping locked ones. One that was entered or finished since then is
--          left.
-- Index    idx_once_entered, then primary keys.
with horizon as materialized (
    select holdfast.clock() - make_interval(secs => holdfast.setting('once_horizon')::float8) as at
),
old as materialized (
    select o.key, o.entered_at, o.job_id
    from holdfast.once o
    where coalesce(o.done_at, 'infinity') = 'infinity'
      and o.entered_at >= $2
      and o.entered_at < (select h.at from horizon h)
    order by o.entered_at
    limit $1
),
locked as materialized (
    select o.key
    from (
        select old.key
        from old
        left join lateral (select true as it from holdfast.inbox i where i.id = old.job_id limit 1) live on true
        where live.it is null
        order by old.key
    ) found
    join holdfast.once o on o.key = any (array[found.key])
    where o.done_at is null
      and o.entered_at < (select h.at from horizon h)
    for update of o skip locked
),
forgotten as (
    delete from holdfast.once o
    using locked
    where o.key = any (array[locked.key])
    returning o.key
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.entered_at) end from old o) as last
from forgotten
