-- What is left in "instances" and "signals" of jobs that have ended: a signal came while they ended.
-- Takes    $1 batch, $2 the last id of the previous batch.
-- Returns  how many, and the last id if there may be more.
-- Locks    the rows, skipping locked ones.
-- Index    the primary keys of instances and inbox, once per row.
with looked as materialized (
    select s.job_id from holdfast.instances s where s.job_id > $2 order by s.job_id limit $1
),
orphans as materialized (
    select l.job_id
    from looked l
    left join lateral (select true as it from holdfast.inbox i where i.id = any (array[l.job_id]) limit 1) live on true
    where live.it is null
)
select holdfast.fold_ended(array(select o.job_id from orphans o)) as rows,
       (select case when pg_catalog.count(*) >= $1 then (select l.job_id from looked l order by l.job_id desc limit 1) end
        from looked) as last
