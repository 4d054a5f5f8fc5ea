-- Forget idempotency keys past their horizon.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Locks    the rows, in order of their keys, skipping locked ones.
-- Index    idx_dedupe_expires, then the primary key; "coalesce" keeps the planner from walking the former again for each.
with old as materialized (
    select d.key, d.expires_at
    from holdfast.dedupe d
    where d.expires_at >= $2
      and d.expires_at < holdfast.clock()
    order by d.expires_at
    limit $1
),
locked as materialized (
    select d.key
    from (select o.key from old o order by o.key) o
    join holdfast.dedupe d on d.key = any (array[o.key])
    where coalesce(d.expires_at, 'infinity') < holdfast.clock()
    for update of d skip locked
),
forgotten as (
    delete from holdfast.dedupe d
    using locked
    where d.key = any (array[locked.key])
    returning d.key
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.expires_at) end from old o) as last
from forgotten
