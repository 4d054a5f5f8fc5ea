-- Let instances wait: see schema/functions/park_instances.sql.
-- Takes    $1 worker, $2 ids, $3 generations, $4 mail seen, $5 waits, $6 seconds until their earliest new timers, $7 their
--          earliest stored ones, $8 children left; $9 and on: the steps, as record.sql.
-- Returns  id, outcome.
-- Locks    instances, then the inbox rows, skipping locked ones; never waits.
-- Index    primary keys alone (see complete.sql).
select p.id, p.outcome
from holdfast.park_instances(
    $1::text, $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::float8[], $7::timestamptz[], $8::int[], $9::uuid[],
    $10::bigint[], $11::text[], $12::int[], $13::int[], $14::text[], $15::text[], $16::text[], $17::text[], $18::int[],
    $19::bigint[], $20::float8[], $21::float8[], $22::timestamptz[], $23::bigint[], $24::text[]) p
