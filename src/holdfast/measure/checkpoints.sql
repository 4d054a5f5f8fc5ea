-- The number of checkpoints that were requested (max_wal_size was reached, or CHECKPOINT) since the statistics were reset.
select num_requested from pg_stat_checkpointer
