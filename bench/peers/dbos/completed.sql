-- How many jobs were completed, and when a quarter, half and three quarters of them were. DBOS keeps the workflows.
select count(*), percentile_disc(array[0.25, 0.5, 0.75]) within group (order by completed_at::float8 / 1000)
from dbos.workflow_status where queue_name = 'jobs' and status = 'SUCCESS'
