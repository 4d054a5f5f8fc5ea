-- Drop the archive's partitions past their retention.
-- Returns  how many were dropped.
select holdfast.drop_partitions(holdfast.setting('archive_days')::int)
