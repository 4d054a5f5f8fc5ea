-- Write steps: see schema/functions/record_steps.sql.
-- Takes    $1 worker, $2 ids, $3 generations, $4 names, $5 numbers, $6 ordinals, $7 kinds, $8 statuses, $9 results, $10 errors,
--          $11 attempts, $12 digests, $13 seconds since they began, $14 seconds until their timers are due, $15 the same as
--          times, $16 the signals that they take, $17 children.
-- Returns  one row: lost, cancelled, paused; null: none. The lost ones may only be locked; held.sql tells them apart.
-- Locks    the inbox rows, skipping locked ones; never waits.
-- Index    primary keys alone (see complete.sql).
select r.lost, r.cancelled, r.paused
from holdfast.record_steps(
    $1::text, $2::uuid[], $3::bigint[], $4::text[], $5::int[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::int[], $12::bigint[], $13::float8[], $14::float8[], $15::timestamptz[], $16::bigint[], $17::text[]) r
