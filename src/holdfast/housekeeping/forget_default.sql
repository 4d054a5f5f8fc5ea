-- Forget ended rows past their retention in the default partition, the one that is never dropped. It holds rows only
-- when no partition was made in time, so this is nearly always an empty look.
-- Takes    $1 batch, $2 the place where the last look ended.
-- Returns  how many, and the end of the look if there may be more.
with old as materialized (
    select d.ctid
    from holdfast.archive_default d
    where d.ctid > $2
      and d.finished_at < holdfast.clock() - make_interval(days => holdfast.setting('archive_days')::int + 1)
    limit $1
),
forgotten as (
    delete from holdfast.archive_default a
    where a.ctid = any (array(select o.ctid from old o))
    returning a.id
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.ctid) end from old o) as last
from forgotten
