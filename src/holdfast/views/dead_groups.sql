-- Dead letters by error group, the group with the newest one first.
-- Takes    $1 the most groups to look at, $2 how far to count the dead letters of each.
-- Returns  group (null: of rows that hand-written SQL has made), count, more (whether there are more), newest and oldest (when they
--          died), and of the newest: id, queue, kind, error, place, last_error.
-- Index    idx_inbox_error_group: one step per group, then the ends of each.
with recursive found as (
    (select d.error_group from holdfast.inbox d
     where d.status = 'dead_letter' and d.error_group is not null
     order by d.error_group limit 1)
    union all
    select (select d.error_group from holdfast.inbox d
            where d.status = 'dead_letter' and d.error_group > f.error_group
            order by d.error_group limit 1)
    from found f
    where f.error_group is not null
),
groups as materialized (
    select f.error_group from found f where f.error_group is not null limit $1::int
)
select g.error_group as "group", c.count, c.count >= $2::int as more, n.dead_at as newest, o.dead_at as oldest,
       n.id, n.queue, n.kind, n.error, n.place, n.last_error
from groups g
cross join lateral (
    select d.dead_at, d.id, d.queue, d.kind, d.errors -> -1 ->> 'error'::text as error, d.errors -> -1 ->> 'place'::text as place,
           d.last_error
    from holdfast.inbox d
    where d.status = 'dead_letter' and d.error_group = g.error_group
    order by d.error_group desc, d.dead_at desc, d.id desc
    limit 1
) n
cross join lateral (
    select d.dead_at from holdfast.inbox d
    where d.status = 'dead_letter' and d.error_group = g.error_group
    order by d.error_group, d.dead_at, d.id
    limit 1
) o
cross join lateral (
    select count(*) as count
    from (select from holdfast.inbox d where d.status = 'dead_letter' and d.error_group = g.error_group limit $2::int) as counted
) c
union all
select null, c.count, c.count >= $2::int, n.dead_at, o.dead_at, n.id, n.queue, n.kind, null, null, n.last_error
from (select count(*) as count
      from (select from holdfast.inbox d where d.status = 'dead_letter' and d.error_group is null limit $2::int) as counted) c
cross join lateral (
    select d.dead_at, d.id, d.queue, d.kind, d.last_error
    from holdfast.inbox d
    where d.status = 'dead_letter' and d.error_group is null
    order by d.error_group desc, d.dead_at desc, d.id desc
    limit 1
) n
cross join lateral (
    select d.dead_at from holdfast.inbox d
    where d.status = 'dead_letter' and d.error_group is null
    order by d.error_group, d.dead_at, d.id
    limit 1
) o
order by newest desc nulls last
