-- Enqueue many jobs in one statement.
-- Takes    arrays of text and numbers: $1 ids, $2 keys, $3 buckets, $4 payloads, $5 queue, $6 priority,
--          $7 delay in seconds, $8 instant, $9 max attempts, $10 payload version, $11 headers,
--          $12 ordered, $13 skips (null: as the queue says).
-- Returns  how many.
-- The condition draws the xid before the clock is read; see enqueue.sql. All share one moment: seq keeps their order.
with mode as materialized (
    select clock_timestamp() as now, due.at, coalesce($13::boolean, q.skips, false) as skips,
           coalesce(q.owned, false) as owned,
           coalesce($12::boolean, q.ordered, false)
               and holdfast.may_wait($5::text, coalesce($13::boolean, q.skips, false), due.at) as ordered
    from (select greatest(clock_timestamp() + make_interval(secs => $7::float8), $8::text::timestamptz) as at) as due
    left join holdfast.queues q on q.name = $5::text
    where pg_current_xact_id() is not null
),
made as (
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, payload, queue, priority, available_at, max_attempts, payload_version, headers,
        ordered, skips, owned)
    select j.id::uuid, j.key, j.bucket, j.payload::jsonb, $5::text, $6::int, greatest(m.at, m.now), $9::int, $10::int,
           $11::text::jsonb, m.ordered, m.skips, m.owned
    from unnest($1::text[], $2::text[], $3::int[], $4::text[]) with ordinality as j (id, key, bucket, payload, n)
    cross join mode m
    order by j.n
    returning id
)
select count(*) as number, holdfast.wake($5::text, $7::float8, $8::text::timestamptz, count(*)::int) as woken
from made
