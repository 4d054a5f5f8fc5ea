-- Forget idempotency keys past their horizon.
-- Takes    $1 batch.
-- Index    idx_dedupe_expires.
with old as materialized (
    select d.key
    from holdfast.dedupe d
    where d.expires_at < holdfast.clock()
    order by d.key
    limit $1
    for update skip locked
)
delete from holdfast.dedupe d
using old
where d.key = any (array[old.key])
returning d.key
