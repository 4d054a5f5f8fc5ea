-- Resume a schedule. Slots of the pause are neither made up for nor counted as missed.
-- Takes    $1 name.
-- Returns  its name; nothing when there is none of this name.
update holdfast.schedules s
set since = case when s.paused_at is null then s.since else greatest(s.since, holdfast.clock()) end,
    next_at = case when s.paused_at is null then s.next_at end, paused_at = null
where s.name = $1
returning s.name
