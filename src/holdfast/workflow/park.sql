-- Let instances wait: see schema/functions/park_instances.sql.
-- Takes    $1 worker, $2 parks, $3 records, $4 does one start a child, $5 does one take a signal.
-- Returns  id, outcome.
-- Locks    instances, then the inbox rows, skipping locked ones; never waits.
-- Index    primary keys alone (see complete.sql).
select p.id, p.outcome
from holdfast.park_instances($1::text, $2::json, $3::json, $4::boolean, $5::boolean) p
