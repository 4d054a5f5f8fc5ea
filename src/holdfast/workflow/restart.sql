-- Run an instance again from a step on: see holdfast.restart_instance.
-- Takes    $1 instance, $2 step, $3 which of several of this name, $4 who does it.
-- Returns  how many steps were forgotten.
select holdfast.restart_instance($1::text, $2::text, $3::int, $4::text) as dropped
