-- Move rows that hand-written SQL completed, and rows that failed after they were cancelled, to the archive. Completed ones are
-- kept as their kind says, or not.
-- Takes    $1 batch, $2 the last id of the previous batch.
-- Returns  how many, and the last id if there may be more.
-- Locks    the rows, in order of id, skipping locked ones.
-- Index    idx_inbox_finished.
with finished as materialized (
    select i.id
    from holdfast.inbox i
    where i.status in ('completed', 'failed')
      and i.id > $2
      and holdfast.parent_of(i.headers) is null          -- archive_children.sql
    order by i.id
    limit $1
    for update skip locked
),
ended as (
    delete from holdfast.inbox i
    using finished
    where i.id = any (array[finished.id])
    returning i.*
),
remembered as (
    update holdfast.dedupe d
    set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
    from ended
    where ended.idempotency_key is not null and d.key = any (array[ended.idempotency_key])
),
archived as (
    insert into holdfast.archive ({{archived_columns}}, status, cancel_requested_at, last_error, result, finished_at,
                                  keep_days)
    select {{archived_columns}},
           case when status::text = 'failed' and cancel_requested_at is not null then 'cancelled' else status::text end
               ::holdfast.inbox_status,
           cancel_requested_at, last_error, null, holdfast.clock(), keep_days
    from ended
    cross join lateral (select (select k.keep_days
                                from holdfast.kinds k
                                where k.kind = ended.kind and ended.status::text = 'completed') as keep_days) as as_its_kind_says
    where coalesce(keep_days, 1) > 0
)
select count(*)::int as rows,
       case when count(*) >= $1 then (select f.id from finished f order by f.id desc limit 1) end as last
from ended
