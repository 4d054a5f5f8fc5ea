-- Pause a schedule: it fires nothing until it is resumed.
-- Takes    $1 name.
-- Returns  since when it is paused; nothing when there is none of this name.
update holdfast.schedules s
set paused_at = coalesce(s.paused_at, holdfast.clock())
where s.name = $1
returning s.paused_at
