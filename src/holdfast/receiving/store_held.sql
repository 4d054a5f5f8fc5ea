-- As store.sql, for the worker that has the consumer, and only if it still has it.
-- Takes    $1 to $7 as store.sql; $8 name of the consumer, $9 worker, $10 generation, $11 seconds for which it is kept.
-- Returns  as store.sql; nothing if another worker has the consumer: then nothing was stored.
-- Locks    the consumer; then as store.sql.
with held as materialized (
    update holdfast.consumers c
    set expires_at = holdfast.clock() + make_interval(secs => $11::float8)
    where c.name = $8 and c.holder = $9 and c.generation = $10::bigint
    returning 1
)
select r.job_id, r.existed, r.differs
from held
cross join lateral holdfast.receive_messages(
    $1::uuid[], $2::text[], $3::text[]::jsonb[], $4::text[]::jsonb[], $5::text[], $6::int[],
    array(select pg_catalog.jsonb_populate_record(null::holdfast.terms, u.terms::jsonb)
          from pg_catalog.unnest($7::text[]) with ordinality as u (terms, n) order by u.n)) r
order by r.n
