-- How many jobs were completed, by its log.
select count(*) from pgqueuer_log where status = 'successful'
