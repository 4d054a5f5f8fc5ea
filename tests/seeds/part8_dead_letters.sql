-- Durable Work in Postgres, part 8: dead letters by stream. Kept as it stands there.
SELECT partition_key, count(*) AS dead_letters, max(last_error) AS sample_error
FROM inbox
WHERE status = 'dead_letter'
GROUP BY partition_key
ORDER BY dead_letters DESC;
