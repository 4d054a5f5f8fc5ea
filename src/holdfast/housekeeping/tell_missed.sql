-- Children that have ended, and whose parents were not told: see schema/functions/tell_missed.sql.
-- Takes    $1 batch, $2 the last child of the previous batch.
-- Returns  how many, and the last child if there may be more.
-- Locks    instances, skipping locked rows.
-- Index    idx_steps_child, and the primary key of inbox, once per row.
with looked as materialized (
    select s.child_id, s.kind, s.status
    from holdfast.steps s
    where s.child_id > $2 and s.child_id is not null
    order by s.child_id
    limit $1
),
missed as materialized (
    select l.child_id
    from looked l
    left join lateral (select true as it from holdfast.inbox i where i.id = any (array[l.child_id]) limit 1) live on true
    where l.kind = 'child' and l.status = 'open' and live.it is null
)
select holdfast.tell_missed(array(select m.child_id from missed m)) as rows,
       (select case when pg_catalog.count(*) >= $1 then (select l.child_id from looked l order by l.child_id desc limit 1) end
        from looked) as last
