-- How old is the oldest pending job?
-- If users wait: holdfast runbook due-lag.
select now() - min(created_at) as oldest_pending_age
from holdfast.inbox
where status = 'pending'
