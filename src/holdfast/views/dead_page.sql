-- A page of dead letters, latest first, among the latest of them.
-- Takes    $1, $2 those before this time and id (null: from the latest), $3 not later than (null: now), $4 error group, $5 queue,
--          $6 kind, $7 text in the last error (each null: any), $8 how many to look through, $9 how many to return.
-- Returns  the jobs, and a row without an id whose "reach" and "reached_at" are the last that was looked at (null: all were).
-- Index    idx_inbox_dead, backwards. Of one group: dead_group_page.sql.
with latest as materialized (
    select d.id, d.queue, d.kind, d.partition_key as key, d.attempts, d.max_attempts, d.dead_at, d.created_at, d.last_error,
           d.error_group
    from holdfast.inbox d
    where d.status = 'dead_letter'
      and (d.dead_at, d.id) < (coalesce($1::timestamptz, 'infinity'), coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
      and d.dead_at <= coalesce($3::timestamptz, 'infinity')
    order by d.dead_at desc, d.id desc
    limit $8
),
matching as (
    select l.id, l.queue, l.kind, l.key, l.attempts, l.max_attempts, l.dead_at, l.created_at, l.last_error, l.error_group
    from latest l
    where ($4::text is null or l.error_group = $4::text)
      and ($5::text is null or l.queue = $5::text)
      and ($6::text is null or l.kind = $6::text)
      and ($7::text is null or pg_catalog.strpos(l.last_error, $7::text) > 0)
    order by l.dead_at desc, l.id desc
    limit $9
)
select m.id, m.queue, m.kind, m.key, m.attempts, m.max_attempts, m.dead_at, m.created_at, m.last_error, m.error_group,
       null::uuid as reach, null::timestamptz as reached_at
from matching m
union all
(
    select null::uuid, null, null, null, null, null, null, null, null, null, l.id, l.dead_at
    from latest l
    where (select count(*) from latest n) = $8
    order by l.dead_at, l.id
    limit 1
)
order by dead_at desc nulls last, id desc
