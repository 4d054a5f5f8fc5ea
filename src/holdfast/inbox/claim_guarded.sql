-- Claim rows that are ordered, owned, or suspects: see holdfast.claim_guarded in 0003_order.sql.
-- Takes    $1–$5 lanes: queue, priority, bucket (null: not owned), floor (available_at, seq); $6, $7 vacated keys;
--          $8 candidates to look at; $9 rows to take; $10 one suspect instead?; $11–$15 as $6–$10 of claim.sql.
select c.at, c.paused, c.snapshot, c.lone, c.running, c.guarded, c.owned, c.lane, c.available_at, c.seq, c.id,
       c.lease_generation, c.fence, c.attempts, c.max_attempts, c.kind, c.payload_version, c.payload, c.queue, c.partition_key,
       c.headers, c.idempotency_key, c.cancelled, c.ordered, c.seen, c.parked, c.end_lane, c.end_at, c.end_seq
from holdfast.claim_guarded(
    $1::text[], $2::smallint[], $3::int[], $4::timestamptz[], $5::bigint[], $6::text[], $7::text[], $8, $9, $10,
    $11::text[], $12::jsonb, $13, $14, $15) c
