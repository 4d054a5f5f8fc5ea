-- Events that a destination has refused permanently
-- Fix the cause, then: holdfast dead revive --queue QUEUE --dry-run.
select i.queue, e.type, i.payload ->> 'endpoint' as endpoint, count(*) as dead_letters, min(i.dead_at) as since,
       max(i.last_error) as sample_error
from holdfast.inbox i
left join holdfast.events e on e.id = (i.payload ->> 'event')::uuid
where i.kind = '@deliver' and i.status = 'dead_letter'
group by i.queue, e.type, i.payload ->> 'endpoint'
order by dead_letters desc
