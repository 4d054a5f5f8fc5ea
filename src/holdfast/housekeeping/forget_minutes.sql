-- Forget minutes after two weeks.
-- Takes    $1 batch, $2 the end of the previous batch.
-- Returns  how many, and the end of this batch if there may be more.
-- Index    the primary key of minutes.
with old as materialized (
    select m.at, m.queue, m.kind
    from holdfast.minutes m
    where m.at >= $2
      and m.at < holdfast.clock() - interval '14 days'
    order by m.at, m.queue, m.kind
    limit $1
),
forgotten as (
    delete from holdfast.minutes m
    using old o
    where m.at = o.at and m.queue = o.queue and m.kind = o.kind
    returning m.at
)
select (select count(*) from forgotten)::int as rows, (select case when count(*) >= $1 then pg_catalog.max(o.at) end from old o) as last
