-- Pause an instance: see holdfast.pause_instance.
-- Takes    $1 instance, $2 who does it.
-- Returns  paused, ended or unknown.
select holdfast.pause_instance($1::text, $2::text) as became
