-- Forget the marks of jobs that were asked for again a day ago: no first try is that late.
-- Takes    $1 batch, $2 those that were made before it were looked at already.
-- Returns  how many, and the end of the look if there may be more.
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
