-- Forget the marks of enqueues that were retried more than a day ago: no first try is that late.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Locks    the rows, skipping what is locked.
-- Index    none: the table holds a row for each answer that was lost within a day.
with old as materialized (
    select m.id, m.at
    from holdfast.asked_again m
    where m.at >= $2
      and m.at < holdfast.clock() - interval '1 day'
    order by m.at
    limit $1
),
locked as materialized (
    select m.id
    from old o
    join holdfast.asked_again m on m.id = any (array[o.id])
    for update of m skip locked
),
forgotten as (
    delete from holdfast.asked_again a
    using locked
    where a.id = any (array[locked.id])
    returning a.id
)
select count(*)::int as rows, (select case when count(*) >= $1 then max(o.at) end from old o) as last
from forgotten
