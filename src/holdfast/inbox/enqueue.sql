-- Enqueue one job.
-- Takes    text and numbers only, so that every driver can send them: $1 id, $2 key, $3 bucket, $4 payload, $5 queue,
--          $6 priority, $7 delay in seconds, $8 instant, $9 max attempts, $10 payload version, $11 headers.
-- Returns  the id.
-- clock_timestamp() is right here and only here: the row must not carry a time before its transaction drew its xid,
-- and the condition draws it before the clock is read.
insert into holdfast.inbox (
    id, partition_key, partition_bucket, payload, queue, priority, available_at, max_attempts, payload_version, headers)
select
    $1::text::uuid, $2::text, $3::int, $4::text::jsonb, $5::text, $6::int,
    greatest(clock_timestamp() + make_interval(secs => $7::float8), $8::text::timestamptz, clock_timestamp()),
    $9::int, $10::int, $11::text::jsonb
where pg_current_xact_id() is not null
returning id::text, false as existed, null::text as conflict,
          holdfast.wake($5::text, $7::float8, $8::text::timestamptz) as woken
