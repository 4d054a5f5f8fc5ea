-- Which kinds are being retried?
-- Fix the cause of the sample error before the jobs become dead letters.
select kind, count(*) as retrying, sum(attempts) as attempts_used, min(available_at) as next_attempt, max(last_error) as sample_error
from holdfast.inbox
where status = 'pending' and attempts > 0
group by kind
order by retrying desc
