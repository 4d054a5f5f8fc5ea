-- The same as checkpoints.sql, from the view of older servers.
select checkpoints_req from pg_stat_bgwriter
