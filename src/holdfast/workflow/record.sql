-- Write steps: see schema/functions/record_steps.sql.
-- Takes    $1 worker, $2 records, $3 does one start a child, $4 does one take a signal.
-- Returns  one row: lost, cancelled, paused; null: none. The lost ones may only be locked; held.sql tells them apart.
-- Locks    the inbox rows, skipping locked ones; never waits.
-- Index    primary keys alone (see complete.sql).
select r.lost, r.cancelled, r.paused
from holdfast.record_steps($1::text, $2::json, $3::boolean, $4::boolean) r
