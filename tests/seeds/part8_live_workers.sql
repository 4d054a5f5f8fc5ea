-- Durable Work in Postgres, part 8: live workers. Kept as it stands there.
SELECT id FROM workers
WHERE status = 'alive'
  AND last_seen_at > now() - interval '30 seconds'
ORDER BY id;
