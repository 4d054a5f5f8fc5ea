-- Enqueue jobs under idempotency keys or the callers' own ids; the first call makes the job, later ones find it.
-- Takes    arrays: $1 ids (null: the server's), $2 keys (null: the id), $3 payloads, $4 idempotency keys; then for all
--          $5 kind, $6 queue, $7 priority, $8 delay in seconds, $9 instant, $10 max attempts, $11 payload version, $12 headers,
--          $13 ordered, $14 skips (null: as the queue says).
-- Returns  id, existed, conflict and the position of each; or the one conflict, and then nothing was stored.
-- Locks    the keys in their order, whatever the order given: two callers in opposite orders deadlocked.
select e.job_id::text as id, e.existed, e.conflict, e.n,
       case when not e.existed then (select holdfast.wake($6::text, $8::float8, $9::text::timestamptz, pg_catalog.cardinality($1::text[]))) end as woken
from holdfast.enqueue_each(
    $1::text[]::uuid[], $2::text[], $3::text[]::jsonb[], $4::text[], $5::text, $6::text, $7::int,
    greatest(clock_timestamp() + make_interval(secs => $8::float8), $9::text::timestamptz),
    $10::int, $11::int, $12::text::jsonb, $13::boolean, $14::boolean) e
