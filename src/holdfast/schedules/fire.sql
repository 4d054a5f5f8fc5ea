-- Deal with slots of a schedule: see schema/functions/fire_schedule.sql.
-- Takes    $1 name, $2 revision as it was read, $3 slots, $4 the last slot, $5 how many are skipped, $6 the next time.
-- Returns  the new jobs; null: it was another's, or has changed.
select holdfast.fire_schedule($1, $2, $3::timestamptz[], $4, $5, $6)
