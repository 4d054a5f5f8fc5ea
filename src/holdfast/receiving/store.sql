-- Store received messages; one that is delivered again finds the job of its first delivery.
-- Takes    arrays: $1 ids, $2 keys (null: the id), $3 payloads, $4 headers (JSON or null), $5 idempotency keys, $6 which of
--          the terms are each message's own, $7 terms as JSON, see holdfast.terms.
-- Returns  for each, in the order given: the id of its job, whether it was there before, and if so, whether with another
--          body.
-- Locks    the keys in their order, whatever the order given: two callers in opposite orders deadlocked.
-- Index    dedupe_pkey.
select r.job_id, r.existed, r.differs
from holdfast.receive_messages(
    $1::uuid[], $2::text[], $3::text[]::jsonb[], $4::text[]::jsonb[], $5::text[], $6::int[],
    array(select pg_catalog.jsonb_populate_record(null::holdfast.terms, u.terms::jsonb)
          from pg_catalog.unnest($7::text[]) with ordinality as u (terms, n) order by u.n)) r
order by r.n
