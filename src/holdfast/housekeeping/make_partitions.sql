-- Make the archive's partitions ahead.
-- Takes    $1 days.
-- Returns  how many were made.
select holdfast.make_partitions($1)
