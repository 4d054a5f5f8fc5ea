-- A page of live workflow instances, newest first, among the newest of them.
-- Takes    $1 ids of jobs below this one (null: from the newest), $2 how many that have waited to look through, $3 how many jobs to
--          look through for those that have not, $4 how many of both, $5 workflow, $6 state (each null: any), $7 how many to return.
-- Returns  columns of holdfast.workflows, and a row without a job whose "reach" is the last id that was looked at (null: all were).
-- Index    the primary keys of instances and inbox, backwards.
with waited as materialized (
    select s.job_id as id
    from holdfast.instances s
    where s.job_id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by s.job_id desc
    limit $2
),
newest as materialized (
    select i.id, i.kind
    from holdfast.inbox i
    where i.id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by i.id desc
    limit $3
),
-- Below the end of either list, the other one says nothing about what is missing.
floor as materialized (
    select greatest(
        (select w.id from waited w where (select count(*) from waited c) = $2 order by w.id limit 1),
        (select n.id from newest n where (select count(*) from newest c) = $3 order by n.id limit 1)
    ) as id
),
candidates as materialized (
    select c.id
    from (
        select w.id from waited w
        union
        select n.id from newest n join holdfast.kinds k on k.kind = n.kind and k.workflow
    ) c
    cross join floor f
    where f.id is null or c.id >= f.id
    order by c.id desc
    limit $4
),
matching as (
    select w.instance, w.job_id, w.workflow, w.version, w.state, w.since, w.waits, w.wake_at, w.dead_children,
           w.cancel_requested_at, w.parent_id, w.queue, w.claimed_by, w.runs, w.last_error, w.created_at
    from candidates c
    cross join lateral (select v.* from holdfast.workflows v where v.job_id = c.id) w
    where ($5::text is null or w.workflow = $5::text)
      and ($6::text is null or w.state = $6::text)
    order by w.job_id desc
    limit $7
)
select m.instance, m.job_id, m.workflow, m.version, m.state, m.since, m.waits, m.wake_at, m.dead_children, m.cancel_requested_at,
       m.parent_id, m.queue, m.claimed_by, m.runs, m.last_error, m.created_at, null::uuid as reach
from matching m
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, r.id
from (
    select coalesce((select c.id from candidates c where (select count(*) from candidates n) = $4 order by c.id limit 1), f.id) as id
    from floor f
) r
where r.id is not null
order by job_id desc nulls last
