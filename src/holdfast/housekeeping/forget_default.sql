-- Forget ended rows past their retention in the default partition, the one that is never dropped. It holds rows only
-- if no partition was made in time, so it is nearly always empty.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
with old as materialized (
    select d.ctid
    from holdfast.archive_default d
    where d.ctid > $2
      and d.finished_at < holdfast.clock() - make_interval(
              days => coalesce(d.keep_days, (select holdfast.setting('archive_days')::int)) + 1)
    limit $1
),
forgotten as (
    delete from holdfast.archive_default a
    where a.ctid = any (array(select o.ctid from old o))
    returning a.id
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.ctid) end from old o) as last
from forgotten
