-- Durable Work in Postgres, part 8: oldest pending work. Kept as it stands there.
SELECT now() - min(created_at) AS oldest_pending_age
FROM inbox
WHERE status = 'pending';
