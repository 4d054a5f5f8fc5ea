-- Forget finished once() markers past their horizon.
-- Takes    $1 batch.
-- Index    idx_once_done.
with old as materialized (
    select o.key
    from holdfast.once o
    where o.done_at < holdfast.clock() - make_interval(secs => holdfast.setting('once_horizon')::float8)
    order by o.key
    limit $1
    for update skip locked
)
delete from holdfast.once o
using old
where o.key = any (array[old.key])
returning o.key
