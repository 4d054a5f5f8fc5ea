-- Durable Work in Postgres, part 1: complete. Kept as it stands there.
UPDATE inbox
SET status = 'completed'
WHERE id = $1
  AND claimed_by = $2
  AND lease_generation = $3
  AND lease_expires_at > now()
  AND status = 'processing';
