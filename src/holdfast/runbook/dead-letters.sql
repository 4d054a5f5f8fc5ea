-- Dead letters by kind
-- Fix the cause, then: holdfast dead revive --kind KIND --dry-run, and again without --dry-run.
select kind, count(*) as dead_letters, min(dead_at) as since, max(dead_at) as latest, max(last_error) as sample_error
from holdfast.inbox
where status = 'dead_letter'
group by kind
order by dead_letters desc
