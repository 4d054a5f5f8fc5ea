-- Durable Work in Postgres, part 2: lease cleanup of exhausted rows. Kept as it stands there.
UPDATE inbox
SET status = 'dead_letter'
WHERE status = 'processing'
  AND lease_expires_at < now()
  AND attempts >= max_attempts;
