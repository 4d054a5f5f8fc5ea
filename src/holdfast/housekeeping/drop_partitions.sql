-- Drop the partitions of the archive and of the events past their retention.
-- Returns  how many were dropped.
select holdfast.drop_partitions(holdfast.setting('archive_days')::int)
       + holdfast.drop_event_partitions(holdfast.setting('event_days')::int)
