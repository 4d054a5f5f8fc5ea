-- Enqueue through the public SQL function, as any other language would.
-- Takes    $1 kind, $2 arguments, $3 queue, $4 key, $5 delay in seconds, $6 priority, $7 idempotency key,
--          $8 max attempts, $9 version, $10 seconds until it expires.
select holdfast.enqueue(
    kind => $1, args => $2::text::jsonb, queue => $3, key => $4, delay => make_interval(secs => $5::float8),
    priority => $6, idempotency_key => $7, max_attempts => $8, version => $9,
    expires => make_interval(secs => $10::float8))
