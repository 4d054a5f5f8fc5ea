-- The queues in which jobs wait, and how many.
select i.queue, count(*)::int as jobs
from holdfast.inbox i
where i.status in ('pending', 'blocked')
group by i.queue
order by i.queue
