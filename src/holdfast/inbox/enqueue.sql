-- Enqueue one job.
-- Takes    text and numbers only, so that every driver can send them: $1 id, $2 key, $3 bucket, $4 payload, $5 queue,
--          $6 priority, $7 delay in seconds, $8 instant, $9 max attempts, $10 payload version, $11 headers,
--          $12 ordered, $13 skips (null: as the queue says), $14 kind.
-- Returns  the id; raises if the job has been asked for again meanwhile (see holdfast.in_time).
-- clock_timestamp() is right here and only here: the row must not carry a time before its transaction drew its xid,
-- and the condition draws it before the clock is read.
insert into holdfast.inbox (
    id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version,
    headers, ordered, skips, owned)
select
    $1::text::uuid, $2::text, $3::int, $14::text, $4::text::jsonb, $5::text, $6::int,
    greatest(clock_timestamp() + make_interval(secs => $7::float8), $8::text::timestamptz, clock_timestamp()),
    $9::int, $10::int, $11::text::jsonb,
    coalesce($12::boolean, q.ordered, false)
        and holdfast.may_wait($5::text, coalesce($13::boolean, q.skips, false),
                              greatest(clock_timestamp() + make_interval(secs => $7::float8), $8::text::timestamptz)),
    coalesce($13::boolean, q.skips, false), coalesce(q.owned, false)
from (select) as always
left join holdfast.queues q on q.name = $5::text
where pg_current_xact_id() is not null
returning id::text, false as existed, null::text as conflict, holdfast.in_time(id) as in_time,
          holdfast.wake($5::text, $7::float8, $8::text::timestamptz) as woken
