-- Make the partitions of the archive and of the events ahead.
-- Takes    $1 days.
-- Returns  how many were made.
select holdfast.make_partitions($1) + holdfast.make_event_partitions($1)
