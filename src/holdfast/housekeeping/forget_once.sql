-- Forget finished once() markers past their horizon.
-- Takes    $1 batch.
-- Locks    the rows, in order of their keys, skipping locked ones.
-- Index    idx_once_done, then the primary key.
with horizon as materialized (
    select holdfast.clock() - make_interval(secs => holdfast.setting('once_horizon')::float8) as at
),
old as materialized (
    select o.key
    from holdfast.once o
    where o.done_at < (select h.at from horizon h)
    order by o.done_at
    limit $1
),
locked as materialized (
    select o.key
    from (select old.key from old order by old.key) found
    join holdfast.once o on o.key = any (array[found.key])
    where o.done_at < (select h.at from horizon h)
    for update of o skip locked
)
delete from holdfast.once o
using locked
where o.key = any (array[locked.key])
returning o.key
