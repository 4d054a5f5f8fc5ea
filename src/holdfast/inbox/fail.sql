-- End attempts that failed: see schema/functions/fail_attempts.sql.
-- Takes    $1 ids in ascending order, $2 generations, $3 errors as stored in last_error, $4 the same as JSON records,
--          $5 seconds until the next attempt (null: by the backoff), $6 dead letters now?, $7 did they kill their
--          process?, $8 worker.
-- Returns  id, status. An id that does not come back was lost.
-- Locks    the rows, in order of id.
-- Index    the primary key alone (see complete.sql).
select f.id, f.status
from holdfast.fail_attempts(
    pg_catalog.array_fill($8::text, array[pg_catalog.cardinality($1::uuid[])]), $1::uuid[], $2::bigint[], $3::text[], $4::text[]::jsonb[], $5::float8[],
    $6::boolean[], $7::boolean[]) f
