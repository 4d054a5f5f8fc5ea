-- Forget rows of the journal that are older than journal_days.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Locks    the rows, skipping locked ones.
-- Index    idx_journal_at, then the primary key.
with old as materialized (
    select j.id, j.at
    from holdfast.journal j
    where j.at >= $2::timestamptz
      and j.at < holdfast.clock() - make_interval(days => coalesce((select holdfast.setting('journal_days')::int), 42))
    order by j.at
    limit $1
    for update of j skip locked
),
forgotten as (
    delete from holdfast.journal j
    where j.id = any (array(select o.id from old o))
    returning j.id
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.at) end from old o) as last
from forgotten
