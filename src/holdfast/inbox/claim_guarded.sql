-- Claim rows that are ordered, owned, or suspects: see holdfast.claim_guarded in 0003_order.sql.
-- Takes    $1–$5 lanes: queue, priority, bucket (null: not owned), start (available_at, seq); $6, $7 their hints;
--          $8–$10 vacated keys: queue, key, were rows of it passed?; $11 rows to look at; $12 keys to lock;
--          $13 rows to take; $14 one suspect instead?; $15 park?; $16–$20 as $6–$10 of claim.sql.
select c.at, c.paused, c.snapshot, c.lone, c.running, c.guarded, c.owned, c.lane, c.available_at, c.seq, c.id,
       c.lease_generation, c.fence, c.attempts, c.max_attempts, c.kind, c.payload_version, c.payload, c.queue, c.partition_key,
       c.headers, c.idempotency_key, c.cancelled, c.ordered, c.looked, c.parked, c.end_lane, c.end_at, c.end_seq, c.busy,
       c.passed_queues, c.passed_keys
from holdfast.claim_guarded(
    $1::text[], $2::smallint[], $3::int[], $4::timestamptz[], $5::bigint[], $6::timestamptz[], $7::bigint[], $8::text[],
    $9::text[], $10::boolean[], $11, $12, $13, $14, $15, $16::text[], $17::jsonb, $18, $19, $20) c
