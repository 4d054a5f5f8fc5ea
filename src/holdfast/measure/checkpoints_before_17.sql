-- As checkpoints.sql, where the view is an older one.
select checkpoints_req from pg_stat_bgwriter
