-- What is left in "steps" of jobs that have ended: hand-written SQL ended them, or a release that knew no workflows.
-- Takes    $1 batch, $2 the last id of the previous batch.
-- Returns  how many, and the last id if there may be more.
-- Locks    rows in "instances", skipping locked ones.
-- Index    the primary key of steps, from one id to the next; that of inbox, once per id.
with recursive looked as (
    (select s.job_id, 1 as n from holdfast.steps s where s.job_id > $2 order by s.job_id limit 1)
    union all
    select next.job_id, k.n + 1
    from looked k
    cross join lateral (
        select s.job_id from holdfast.steps s where s.job_id > k.job_id order by s.job_id limit 1
    ) next
    where k.n < $1
),
orphans as materialized (
    select l.job_id
    from looked l
    left join lateral (select true as it from holdfast.inbox i where i.id = any (array[l.job_id]) limit 1) live on true
    where live.it is null
)
select holdfast.fold_ended(array(select o.job_id from orphans o)) as rows,
       (select l.job_id from looked l where l.n >= $1 limit 1) as last
