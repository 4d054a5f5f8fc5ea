-- How many jobs were completed, and when a quarter, half and three quarters of them were.
select count(*), percentile_disc(array[0.25, 0.5, 0.75]) within group (order by extract(epoch from done_at)::float8)
from toy where done_at is not null
