-- How many checkpoints came because max_wal_size was reached or somebody asked, since the statistics were reset.
select num_requested from pg_stat_checkpointer
