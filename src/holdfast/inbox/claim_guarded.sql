-- Claim rows that are ordered, owned, or suspects: see holdfast.claim_guarded in 0005_leaner.sql.
-- Takes    $1–$5 lanes: queue, priority, of owned rows?, start (available_at, seq); $6, $7 their hints; $8, $9 the buckets that
--          are ours; $10–$12 vacated keys: queue, key, were rows of it passed?; $13 rows to look at; $14 keys to lock;
--          $15 rows to take; $16 one suspect instead?; $17 park?; $18–$22 as $6–$10 of claim.sql.
-- Returns  a first row with a record about the call; then claims, and rows that were left as they were, with the place
--          of each.
select c.id, c.lease_generation, c.fence, c.attempts, c.max_attempts, c.kind, c.payload_version, c.payload, c.queue,
       c.partition_key, c.headers, c.idempotency_key, c.cancelled, c.ordered, c.lane, c.available_at, c.seq,
       case when c.at is not null then row(
           c.at, c.paused, c.snapshot, c.lone, c.running, c.guarded, c.owned, c.end_lane, c.end_at, c.end_seq, c.looked,
           c.busy, c.passed_queues, c.passed_keys, c.empty_queues, c.empty_keys)
       end as call
from holdfast.claim_guarded(
    $1::text[], $2::smallint[], $3::boolean[], $4::timestamptz[], $5::bigint[], $6::timestamptz[], $7::bigint[], $8::text[],
    $9::int[], $10::text[], $11::text[], $12::boolean[], $13, $14, $15, $16, $17, $18::text[], $19::jsonb, $20, $21, $22) c
