-- Durable Work in Postgres, part 8: rows beyond their lease. Kept as it stands there.
SELECT id, partition_key, claimed_by, lease_expires_at, attempts, last_error
FROM inbox
WHERE status = 'processing'
  AND lease_expires_at < now()
ORDER BY lease_expires_at
LIMIT 50;
