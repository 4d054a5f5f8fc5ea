-- Which worker holds which jobs?
-- Silent for more than 30 s: it is gone, and its jobs are returned when their lease ends.
select i.claimed_by, w.status, now() - w.last_seen_at as silent, count(*) as jobs, min(i.claimed_at) as oldest_claim,
       min(i.lease_expires_at) as next_lease_end, array_agg(distinct i.kind) as kinds
from holdfast.inbox i
left join holdfast.workers w on w.id = i.claimed_by
where i.status = 'processing'
group by i.claimed_by, w.status, w.last_seen_at
order by oldest_claim
