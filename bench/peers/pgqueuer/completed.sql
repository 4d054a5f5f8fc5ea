-- How many jobs were completed, and when a quarter, half and three quarters of them were. PgQueuer keeps a log.
select count(*), percentile_disc(array[0.25, 0.5, 0.75]) within group (order by extract(epoch from created)::float8)
from pgqueuer_log where status = 'successful'
