-- How many jobs were completed, and when a quarter, half and three quarters of them were. pg-boss keeps the jobs.
select count(*), percentile_disc(array[0.25, 0.5, 0.75]) within group (order by extract(epoch from completed_on)::float8)
from pgboss.job where name = 'noop' and state = 'completed'
