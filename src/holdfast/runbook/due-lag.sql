-- How long do due jobs wait, by queue?
-- Paused: holdfast queue resume NAME. Unknown kinds: holdfast runbook unclaimable. Otherwise more hands: --concurrency,
-- --processes.
select i.queue, i.priority, count(*) as due, now() - min(i.available_at) as lag, q.paused_at
from holdfast.inbox i
left join holdfast.queues q on q.name = i.queue
where i.status = 'pending' and i.available_at <= now()
group by i.queue, i.priority, q.paused_at
order by lag desc
