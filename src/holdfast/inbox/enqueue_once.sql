-- Enqueue jobs under idempotency keys or the callers' own ids; the first call makes the job, later ones find it.
-- Takes    arrays: $1 ids (null: the server's), $2 keys (null: the id), $3 payloads, $4 idempotency keys, $5 which of the
--          terms are each job's own, $6 terms as JSON, see holdfast.terms.
-- Returns  id, existed, conflict, the position of each, and whether it replaced a job that waited; or the one conflict, and then nothing was stored.
-- Locks    the keys in their order, whatever the order given: two callers in opposite orders deadlocked.
select e.job_id::text as id, e.existed, e.conflict, e.n, e.replaced
from holdfast.enqueue_all(
    $1::text[]::uuid[], $2::text[], $3::text[]::jsonb[], $4::text[], $5::int[],
    array(select pg_catalog.jsonb_populate_record(null::holdfast.terms, u.terms::jsonb)
          from pg_catalog.unnest($6::text[]) with ordinality as u (terms, n) order by u.n)) e
