-- How many jobs were completed, and when a quarter, half and three quarters of them were. Awa keeps the jobs for a while.
select count(*), percentile_disc(array[0.25, 0.5, 0.75]) within group (order by extract(epoch from finalized_at)::float8)
from awa.jobs where state = 'completed'
