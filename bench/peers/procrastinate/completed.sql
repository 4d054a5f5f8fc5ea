-- How many jobs were completed, and when a quarter, half and three quarters of them were. procrastinate keeps events.
select count(*), percentile_disc(array[0.25, 0.5, 0.75]) within group (order by extract(epoch from at)::float8)
from procrastinate_events where type = 'succeeded'
