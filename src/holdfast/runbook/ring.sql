-- The workers of each owned queue, and what ring each sees
-- All rows of a queue must have the same number of members and the same ring. Silent for more than 20 s: it may be gone.
select q.name as queue, w.id as worker, now() - w.last_seen_at as silent, now() - w.started_at as up,
       count(*) over (partition by q.name) as members, w.metadata -> 'counters' ->> 'ring' as ring
from holdfast.queues q
join holdfast.workers w on w.status = 'alive' and w.last_seen_at > now() - interval '30 seconds' and w.metadata -> 'queues' ? q.name
where q.owned
order by q.name, w.id
