-- Cancel a job: a waiting one ends at once, the handler of a running one is notified.
-- Takes    $1 id, $2 reason.
-- Returns  one row: cancelled (it ended), processing (its handler is notified), dead_letter (it stays one), or nothing
--          if there is no such live job.
-- Locks    the row; waits for a transaction that holds it.
-- Index    the primary key.
with target as materialized (
    select i.id, case when i.status::text = 'failed' and i.cancel_requested_at is not null then 'cancelled'
                      else i.status::text end as status
    from holdfast.inbox i
    where i.id = $1
    for update
),
ended as (
    delete from holdfast.inbox i
    using target t
    where i.id = any (array[t.id]) and t.status in ('pending', 'blocked')
    returning i.*
),
archived as (
    insert into holdfast.archive ({{archived_columns}}, status, cancel_requested_at, last_error, result, finished_at)
    select {{archived_columns}}, 'cancelled', holdfast.clock(), $2, null, holdfast.clock()
    from ended
),
remembered as (
    update holdfast.dedupe d
    set expires_at = holdfast.clock() + make_interval(secs => holdfast.setting('dedupe_horizon')::float8)
    from ended
    where ended.idempotency_key is not null and d.key = any (array[ended.idempotency_key])
),
told as (
    update holdfast.inbox i
    set cancel_requested_at = coalesce(i.cancel_requested_at, holdfast.clock())
    from target t
    where i.id = any (array[t.id]) and t.status = 'processing'
    returning i.id
)
select case when exists (select from ended) then 'cancelled' when exists (select from told) then 'processing' else t.status end as status
from target t
