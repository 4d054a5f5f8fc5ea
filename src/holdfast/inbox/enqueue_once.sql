-- Enqueue jobs under idempotency keys or the callers' own ids; the first call makes the job, later ones find it.
-- Takes    arrays: $1 ids (null: the server's), $2 keys (null: the id), $3 payloads, $4 idempotency keys; then for all
--          $5 kind, $6 queue, $7 priority, $8 delay in seconds, $9 instant, $10 max attempts, $11 payload version, $12 headers.
-- Returns  id, existed, conflict and the position, in order of idempotency key: two callers in opposite orders deadlocked.
select o.job_id::text as id, o.existed, o.conflict, j.n
from (
    select u.id, u.key, u.payload, u.idempotency_key, u.n
    from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as u (id, key, payload, idempotency_key, n)
    order by u.idempotency_key collate "C", u.id
    offset 0
) j
cross join lateral holdfast.enqueue_once(
    j.id::uuid, $5::text, j.payload::jsonb, $6::text, j.key, $7::int,
    greatest(clock_timestamp() + make_interval(secs => $8::float8), $9::text::timestamptz),
    j.idempotency_key, $10::int, $11::int, $12::text::jsonb) o
