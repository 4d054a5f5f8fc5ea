-- Enqueue many jobs in one statement.
-- Takes    arrays of text and numbers: $1 ids, $2 keys, $3 buckets, $4 payloads, $5 queue, $6 priority,
--          $7 delay in seconds, $8 instant, $9 max attempts, $10 payload version, $11 headers,
--          $12 ordered, $13 skips (null: as the queue says).
-- Returns  the ids.
-- The condition draws the xid before the clock is read; see enqueue.sql.
insert into holdfast.inbox (
    id, partition_key, partition_bucket, payload, queue, priority, available_at, max_attempts, payload_version, headers,
    ordered, skips, owned)
select
    j.id::uuid, j.key, j.bucket, j.payload::jsonb, $5::text, $6::int,
    greatest(clock_timestamp() + make_interval(secs => $7::float8), $8::text::timestamptz, clock_timestamp()),
    $9::int, $10::int, $11::text::jsonb,
    coalesce($12::boolean, q.ordered, false)
        and holdfast.may_wait($5::text, coalesce($13::boolean, q.skips, false),
                              greatest(clock_timestamp() + make_interval(secs => $7::float8), $8::text::timestamptz)),
    coalesce($13::boolean, q.skips, false), coalesce(q.owned, false)
from unnest($1::text[], $2::text[], $3::int[], $4::text[]) with ordinality as j (id, key, bucket, payload, n)
left join holdfast.queues q on q.name = $5::text
where pg_current_xact_id() is not null
order by j.n
returning id::text, false as existed, null::text as conflict,
          (select holdfast.wake($5::text, $7::float8, $8::text::timestamptz)) as woken      -- once, not per row
