-- Remove a schedule; jobs that it has enqueued stay.
-- Takes    $1 name.
-- Returns  its source; nothing when there is none.
delete from holdfast.schedules s
where s.name = $1
returning s.source
