-- Resume an instance: see holdfast.resume_instance.
-- Takes    $1 instance, $2 who does it.
-- Returns  resumed, not paused, ended or unknown.
select holdfast.resume_instance($1::text, $2::text) as became
