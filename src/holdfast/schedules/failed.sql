-- Note why a schedule cannot fire, which `schedule list` shows, and retry it later.
-- Takes    $1 name, $2 revision as it was read, $3 why, $4 after how many seconds.
update holdfast.schedules s
set error = $3, next_at = holdfast.clock() + make_interval(secs => $4::float8)
where s.name = $1 and s.revision = $2
