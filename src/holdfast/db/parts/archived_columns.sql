-- The columns that a row keeps when it moves from the inbox to the archive. Statements that move rows add status,
-- cancel_requested_at, last_error, result and finished_at, which say how the job ended; and keep_days.
id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, headers, attempts, max_attempts,
claimed_by, claimed_at, lease_generation, fence, available_at, errors, idempotency_key, created_at
