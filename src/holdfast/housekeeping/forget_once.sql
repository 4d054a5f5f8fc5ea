-- Forget finished once() markers past their horizon.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Locks    the rows, in order of their keys, skipping locked ones.
-- Index    idx_once_done, then the primary key (see forget_dedupe.sql).
with horizon as materialized (
    select holdfast.clock() - make_interval(secs => holdfast.setting('once_horizon')::float8) as at
),
old as materialized (
    select o.key, o.done_at
    from holdfast.once o
    where o.done_at >= $2
      and o.done_at < (select h.at from horizon h)
    order by o.done_at
    limit $1
),
locked as materialized (
    select o.key
    from (select old.key from old order by old.key) found
    join holdfast.once o on o.key = any (array[found.key])
    where coalesce(o.done_at, 'infinity') < (select h.at from horizon h)
    for update of o skip locked
),
forgotten as (
    delete from holdfast.once o
    using locked
    where o.key = any (array[locked.key])
    returning o.key
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.done_at) end from old o) as last
from forgotten
